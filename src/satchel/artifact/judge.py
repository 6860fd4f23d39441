"""The one function that verifies any sealed file, whoever wrote it."""

from satchel.artifact.pam_sdk.verifier import judge_sdk_file
from satchel.artifact.reader import SdkFileError
from satchel.artifact.verification import TrustPolicy, Verification
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.errors import UsageError
from satchel.runtime.input import InputPath


def verify_file(
    path: InputPath, policy: TrustPolicy, request: VerificationRequest | None = None
) -> Verification:
    """Verify a sealed file; what is wrong with it is in the result, not raised.

    Args:
        path: The file, in any encoding, plain or gzip; or a file of the published SDK.
        policy: Whose signature counts.
        request: How far to look.

    Raises:
        UnreadableError: If the file cannot be read.
        EmptyInputError: If it is empty.
        UnknownFormatError: If it is no sealed file at all.
        UsageError: If the entry asked for is not in it.
    """
    asked = request or VerificationRequest()
    try:
        return verify_artifact(path, policy, asked)
    except SdkFileError:
        if asked.entry is not None:
            raise UsageError(
                "chains can be followed in artifacts only, and this is an SDK file",
                file=str(path),
                hint="Convert it first: satchel convert.",
            ) from None
        return judge_sdk_file(path, policy, asked.limits)
