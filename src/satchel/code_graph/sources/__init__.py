"""Sources of code: folders and SCIP indexes."""
