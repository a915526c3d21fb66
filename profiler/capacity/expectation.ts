/**
 * An expected and an observed rate agree up to this ratio of the larger to the smaller. Assumed.
 */
const maxRatio = 1.2

/**
 * Whether an observed rate agrees with the one that the caller expects, for example from a device
 * model; false if one is missing.
 */
export const agreesWithExpectation = (
  expectedRps: number | undefined,
  observedRps: number | undefined,
): boolean =>
  expectedRps !== undefined &&
  observedRps !== undefined &&
  observedRps < maxRatio * expectedRps &&
  expectedRps < maxRatio * observedRps
