/**
 * Fits the lengths of prompt and answer to the context of a model, which they share. The server
 * counts more tokens than we do, so its count is estimated by a calibration (prompt-fitting.ts).
 */

/** Context of a model and the calibration of its server's token count. */
export interface ContextFit {
  /** Limit on the tokens of a prompt and its answer together, as the server counts them. */
  readonly context: number
  /** Tokens that the server counts per token that we count. */
  readonly perToken: number
  /** Standard deviation of `perToken`; 0 where both counts agree. */
  readonly perTokenError: number
  /** Tokens that a template adds to each message. */
  readonly perMessage: number
}

/**
 * Bounds the server's count of a prompt from above, at three standard deviations: about one prompt
 * in several hundred exceeds it.
 */
function boundServerTokens(
  { perToken, perTokenError, perMessage }: ContextFit,
  inputTokens: number,
  messages: number,
): number {
  // Words split into additional tokens independently, so their number is about Poisson: its
  // variance equals its mean. The error of the calibration adds to it.
  const deviation = Math.sqrt(
    Math.max(0, perToken - 1) * inputTokens + (perTokenError * inputTokens) ** 2,
  )
  return Math.ceil(messages * perMessage + perToken * inputTokens + 3 * deviation)
}

/** Whether prompt and answer fit the context. */
export const fitsContext = (
  fit: ContextFit,
  inputTokens: number,
  outputTokens: number,
  messages = 1,
): boolean => boundServerTokens(fit, inputTokens, messages) + outputTokens <= fit.context

/** Finds the longest prompt that leaves half of the context to the answer, at least one token. */
export const findMaxPromptTokens = (fit: ContextFit): number =>
  findMaxInputTokens(fit, Math.floor(fit.context / 2))

/** Bisects the longest prompt that fits beside an answer of this length, at least one token. */
function findMaxInputTokens(fit: ContextFit, outputTokens: number): number {
  let low = 1
  let high = fit.context
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fitsContext(fit, middle, outputTokens)) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * Shortens prompt and answer to the context. The answer gets what the prompt leaves, or at least
 * half of the context if it is that long; the prompt gets what the answer leaves.
 */
export function fitLengths(
  fit: ContextFit | undefined,
  inputTokens: number,
  outputTokens: number,
): { readonly inputTokens: number; readonly outputTokens: number; readonly isCut?: true } {
  if (fit === undefined || fitsContext(fit, inputTokens, outputTokens))
    return { inputTokens, outputTokens }
  const tokensLeft = fit.context - boundServerTokens(fit, inputTokens, 1)
  const answerTokens = Math.min(outputTokens, Math.max(1, tokensLeft, Math.floor(fit.context / 2)))
  return {
    inputTokens: Math.min(inputTokens, findMaxInputTokens(fit, answerTokens)),
    outputTokens: answerTokens,
    isCut: true,
  }
}
