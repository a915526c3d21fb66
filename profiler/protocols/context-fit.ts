/**
 * Lengths that a model's context takes: prompt and answer share it, counted as the server counts.
 */

export interface ContextFit {
  /** Tokens of a prompt and its answer together. */
  readonly context: number
  /** The server's tokens for one of ours. */
  readonly perToken: number
  /** How far `perToken` may be off, as a standard deviation; 0 where both count alike. */
  readonly perTokenError: number
  /** Tokens that a template puts around each message. */
  readonly perMessage: number
}

/** The server's count of a prompt, no lower than it is but once in some hundreds. */
function served(
  { perToken, perTokenError, perMessage }: ContextFit,
  inputTokens: number,
  messages: number,
): number {
  // Tokens beyond one a word come by chance, as rare events do.
  const chance = Math.sqrt(
    Math.max(0, perToken - 1) * inputTokens + (perTokenError * inputTokens) ** 2,
  )
  return Math.ceil(messages * perMessage + perToken * inputTokens + 3 * chance)
}

export const fits = (
  fit: ContextFit,
  inputTokens: number,
  outputTokens: number,
  messages = 1,
): boolean => served(fit, inputTokens, messages) + outputTokens <= fit.context

/** The longest prompt that leaves half of the context to the answer, at least one token. */
export const longestPrompt = (fit: ContextFit): number =>
  longestBeside(fit, Math.floor(fit.context / 2))

function longestBeside(fit: ContextFit, outputTokens: number): number {
  let [low, high] = [1, fit.context]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(fit, middle, outputTokens)) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * Both as they are where they fit; else the prompt gives way until the answer is half of the
 * context, from there the answer too.
 */
export function lengthsWithin(
  fit: ContextFit | undefined,
  inputTokens: number,
  outputTokens: number,
): { readonly inputTokens: number; readonly outputTokens: number; readonly fitted?: 'cut' } {
  if (fit === undefined || fits(fit, inputTokens, outputTokens))
    return { inputTokens, outputTokens }
  const room = fit.context - served(fit, inputTokens, 1)
  const answer = Math.min(outputTokens, Math.max(1, room, Math.floor(fit.context / 2)))
  return {
    inputTokens: Math.min(inputTokens, longestBeside(fit, answer)),
    outputTokens: answer,
    fitted: 'cut',
  }
}
