// The one error for input that must not be accepted; anything else thrown is a bug in this checker.

export class Refused extends Error {}

export function refuse(why) {
  throw new Refused(why);
}

export function require(condition, why) {
  if (!condition) refuse(why);
}
