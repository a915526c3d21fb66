/** What no report of a simulated run says: that a load test confirmed or measured anything. */
export const claimsOfMeasuring =
  /independent load test|measured once|% confidence\)|(?<!not |NOT |if )\bconfirmed\b/
