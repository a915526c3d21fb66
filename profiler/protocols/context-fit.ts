/**
 * Lengths that fit the context of a model, which prompt and answer share, in tokens of the server.
 */

export interface ContextFit {
  /** Tokens of a prompt and its answer together. */
  readonly context: number
  /** Tokens of the server per token of ours. */
  readonly perToken: number
  /** Standard deviation of `perToken`; 0 where both counts agree. */
  readonly perTokenError: number
  /** Tokens that a template adds to each message. */
  readonly perMessage: number
}

/**
 * Tokens of a prompt as the server counts them, an upper bound with rare exceptions (one in some
 * hundreds).
 */
function served(
  { perToken, perTokenError, perMessage }: ContextFit,
  inputTokens: number,
  messages: number,
): number {
  // Additional tokens per word occur at random, like rare events.
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

/** Longest prompt that leaves half of the context to the answer, at least one token. */
export const maxPromptTokens = (fit: ContextFit): number =>
  maxTemplateTokens(fit, Math.floor(fit.context / 2))

function maxTemplateTokens(fit: ContextFit, outputTokens: number): number {
  let [low, high] = [1, fit.context]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(fit, middle, outputTokens)) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * Fits prompt and answer to the context. The prompt is shortened until the answer is half of the
 * context, then the answer too.
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
    inputTokens: Math.min(inputTokens, maxTemplateTokens(fit, answer)),
    outputTokens: answer,
    fitted: 'cut',
  }
}
