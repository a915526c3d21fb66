/** An expected and an observed rate agree up to this ratio of the larger to the smaller. */
const maxRatio = 1.2

/** Whether an observed rate agrees with the expected one; false where either is missing. */
export const agreesWithExpectation = (
  expectedRps: number | undefined,
  observedRps: number | undefined,
): boolean =>
  expectedRps !== undefined &&
  observedRps !== undefined &&
  observedRps < maxRatio * expectedRps &&
  expectedRps < maxRatio * observedRps
