/** Fits the prompts of a pool to the context of their server, by the server's own token count. */
import type { PayloadSource } from '../payload-source.ts'
import type { PromptSpec } from '../prompt-spec.ts'
import { type ContextFit, fits } from './context-fit.ts'
import { defaultPrompts, makePrompts, type Prompt } from './prompts.ts'
import { counterOf } from './tokenizer.ts'

/** Limits on the tokens of a common word, and on those that a template adds to a message. */
const maxPerWord = 8
const maxPerMessage = 256
/** Words of the longer of two prompts that calibrate the server's count. */
const maxCalibrationWords = 512
/** Prompts of a file that are counted, as far as this many letters per word suffice. */
const triedSaid = 8
const lettersPerWord = 4

type GeneratedSource = Extract<PayloadSource, { kind: 'generated' }>

/**
 * @param context tokens of prompt and answer together; undefined: unlimited
 * @param count the server's count of a prompt's tokens, where it reports one; its errors are passed
 * on
 * @throws PayloadError as `makePrompts`
 */
export async function promptsWithin(
  context: number | undefined,
  { prompts: spec = defaultPrompts, seed, count: many }: GeneratedSource,
  count: (prompt: Prompt) => Promise<number | undefined>,
): Promise<{ readonly prompts: readonly Prompt[]; readonly remarks: readonly string[] }> {
  const drawn = makePrompts(spec, seed, many)
  if (context === undefined) return { prompts: drawn, remarks: [] }
  const worst: ContextFit = {
    context,
    perToken: maxPerWord,
    perTokenError: 0,
    perMessage: maxPerMessage,
  }
  if (within(drawn, worst)) return { prompts: drawn, remarks: [] }
  const fit = { context, ...(await countingOf(context, spec, drawn, seed, count)) }
  if (within(drawn, fit)) return { prompts: drawn, remarks: [] }
  const prompts = makePrompts(spec, seed, many, fit)
  return { prompts, remarks: [remark(prompts, context)] }
}

const within = (prompts: readonly Prompt[], fit: ContextFit): boolean =>
  prompts.every(({ inputTokens, outputTokens, said }) =>
    fits(fit, inputTokens, outputTokens, said.length),
  )

/**
 * Calibrates the count from two prompts, one twice as long: what grows with length are tokens, the
 * rest is the template.
 */
async function countingOf(
  context: number,
  spec: PromptSpec,
  drawn: readonly Prompt[],
  seed: number,
  count: (prompt: Prompt) => Promise<number | undefined>,
): Promise<Omit<ContextFit, 'context'>> {
  const half = Math.max(1, Math.min(maxCalibrationWords, Math.floor(context / maxPerWord)) >> 1)
  const own = counterOf(spec.tokenizer)
  const of = (tokens: number): Prompt => {
    const lengths = {
      inputTokens: { kind: 'fixed', tokens },
      outputTokens: { kind: 'fixed', tokens: 1 },
    } as const
    return makePrompts(
      { ...lengths, ...(spec.tokenizer !== undefined && { tokenizer: spec.tokenizer }) },
      seed,
      1,
    )[0]!
  }
  /** Tokens of the server per token of ours, and tokens added to a message. */
  const counted = async (short: Prompt, long: Prompt) => {
    const [a, b] = [await count(short), await count(long)]
    if (a === undefined || b === undefined) return { perToken: 1, perMessage: 0 }
    const perToken = Math.max(1, (b - a) / Math.max(1, own(long.text) - own(short.text)))
    return { perToken, perMessage: Math.max(0, a - perToken * own(short.text)) }
  }
  if (spec.file !== undefined) {
    // Written texts vary, so the most expensive of some longer ones counts.
    const longer = drawn
      .toSorted((a, b) => b.inputTokens - a.inputTokens)
      .slice(0, Math.ceil(drawn.length / 2))
    const tries: Awaited<ReturnType<typeof counted>>[] = []
    for (let i = 0; i < Math.min(triedSaid, longer.length); i++) {
      const prompt = longer[Math.floor((i * longer.length) / triedSaid)]!
      const said = prompt.text.slice(0, lettersPerWord * 2 * half)
      tries.push(
        await counted(
          saying(prompt, said.slice(0, Math.ceil(said.length / 2))),
          saying(prompt, said),
        ),
      )
    }
    const most = (what: 'perToken' | 'perMessage') => Math.max(...tries.map((tried) => tried[what]))
    return { perToken: most('perToken'), perTokenError: 0, perMessage: most('perMessage') }
  }
  const short = of(half)
  const twice = `${short.text} ${short.text}`
  const { perToken, perMessage } = await counted(
    short,
    spec.tokenizer === undefined ? saying(short, twice) : of(2 * half),
  )
  return { perToken, perTokenError: Math.sqrt((perToken - 1) / half), perMessage }
}

const saying = (prompt: Prompt, text: string): Prompt => ({
  ...prompt,
  text,
  said: [text],
  outputTokens: 1,
})

function remark(prompts: readonly Prompt[], context: number): string {
  const cut = prompts.filter(({ fitted }) => fitted === 'cut').length
  const begun = prompts.reduce((sum, { ended = 0 }) => sum + ended, 0)
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
