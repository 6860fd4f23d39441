// node judge.mjs DID[,DID...] FILE... prints the outcome of each file, one a line.

import { readFileSync } from "node:fs";
import { verify } from "./js/verify.mjs";

const [trusted, ...files] = process.argv.slice(2);
for (const file of files) console.log(verify(readFileSync(file), trusted.split(",")).outcome);
