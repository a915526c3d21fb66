/**
 * Factor between what was expected of a server and what is seen, up to which the one bears the
 * other out.
 */
const agreeing = 1.2

/**
 * Whether a rate that was believed beforehand is the one that is seen; where nothing was believed,
 * or nothing seen, it is not.
 */
export const bornOut = (expectedRps: number | undefined, seenRps: number | undefined): boolean =>
  expectedRps !== undefined &&
  seenRps !== undefined &&
  seenRps < agreeing * expectedRps &&
  expectedRps < agreeing * seenRps
