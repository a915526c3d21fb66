/** Prompts of a pool within the context of the server that they are for, by its own count of tokens. */
import type { PayloadSource } from '../payload-source.ts'
import { type ContextFit, fits } from './context-fit.ts'
import { defaultPrompts, makePrompts, type Prompt } from './prompts.ts'

/** No tokenizer makes more of a common word, and no template adds more to a message. */
const mostPerWord = 8
const mostPerMessage = 256
/** Words of the longer of the two prompts that show how a server counts. */
const mostTried = 512

type GeneratedSource = Extract<PayloadSource, { kind: 'generated' }>

/**
 * @param context tokens of prompt and answer together; undefined: whatever there is
 * @param count the server's count of a prompt's tokens, where it tells of one; what it throws is thrown
 * @throws PayloadError as `makePrompts`
 */
export async function promptsWithin(
  context: number | undefined,
  { prompts: spec = defaultPrompts, seed, count: many }: GeneratedSource,
  count: (prompt: Prompt) => Promise<number | undefined>,
): Promise<{ readonly prompts: readonly Prompt[]; readonly remarks: readonly string[] }> {
  const drawn = makePrompts(spec, seed, many)
  if (context === undefined) return { prompts: drawn, remarks: [] }
  const worst: ContextFit = { context, perToken: mostPerWord, perTokenError: 0, perMessage: mostPerMessage }
  if (within(drawn, worst)) return { prompts: drawn, remarks: [] }
  const fit = { context, ...(await countingOf(context, spec.tokenizer, seed, count)) }
  if (within(drawn, fit)) return { prompts: drawn, remarks: [] }
  const prompts = makePrompts(spec, seed, many, fit)
  return { prompts, remarks: [remark(prompts, context)] }
}

const within = (prompts: readonly Prompt[], fit: ContextFit): boolean =>
  prompts.every(({ inputTokens, outputTokens, said }) => fits(fit, inputTokens, outputTokens, said.length))

/** From two prompts, the one of twice the other's length: what grows with it are tokens, what does not is the template. */
async function countingOf(
  context: number,
  tokenizer: string | undefined,
  seed: number,
  count: (prompt: Prompt) => Promise<number | undefined>,
): Promise<Omit<ContextFit, 'context'>> {
  const half = Math.max(1, Math.min(mostTried, Math.floor(context / mostPerWord)) >> 1)
  const of = (tokens: number): Prompt => {
    const lengths = { inputTokens: { kind: 'fixed', tokens }, outputTokens: { kind: 'fixed', tokens: 1 } } as const
    return makePrompts({ ...lengths, ...(tokenizer !== undefined && { tokenizer }) }, seed, 1)[0]!
  }
  const short = of(half)
  const twice = `${short.text} ${short.text}`
  const [a, b] = [await count(short), await count(tokenizer === undefined ? { ...short, text: twice, said: [twice] } : of(2 * half))]
  if (a === undefined || b === undefined) return { perToken: 1, perTokenError: 0, perMessage: 0 }
  const perToken = Math.max(1, (b - a) / half)
  return { perToken, perTokenError: Math.sqrt((perToken - 1) / half), perMessage: Math.max(0, a - perToken * half) }
}

function remark(prompts: readonly Prompt[], context: number): string {
  const many = (what: Prompt['fitted']) => prompts.filter(({ fitted }) => fitted === what).length
  const [cut, begun] = [many('cut'), many('begun anew')]
  const told = [
    ...(cut > 0 ? [`${cut} of ${prompts.length} requests were cut`] : []),
    ...(begun > 0 ? [`${begun} conversations ended early`] : []),
  ]
  return (
    `the server takes ${context} tokens of prompt and answer together: ${told.join(' and ')} to fit ` +
    `(longest prompt ${longest(prompts, 'inputTokens')}, longest answer ${longest(prompts, 'outputTokens')} tokens now)`
  )
}

const longest = (prompts: readonly Prompt[], what: 'inputTokens' | 'outputTokens'): number =>
  prompts.reduce((most, prompt) => Math.max(most, prompt[what]), 0)
