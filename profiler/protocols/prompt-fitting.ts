/** Fits the prompts of a pool to the context of their server, by the server's own token count. */
import type { PayloadSource } from '../payload-source.ts'
import type { PromptSpec } from '../prompt-spec.ts'
import { type ContextFit, fitsContext } from './context-fit.ts'
import { defaultPrompts, makePrompts, type Prompt } from './prompts.ts'
import { createTokenCounter } from './tokenizer.ts'

/**
 * Limits on the tokens of a common word, and on those that a chat template adds to a message.
 * Prompts that fit even with these need no calibration.
 */
const maxPerWord = 8
const maxPerMessage = 256
/** Words of the longer of two prompts that calibrate the server's count. */
const maxCalibrationWords = 512
/**
 * Number of prompts of a file that calibrate the count, each shortened to this many letters per
 * word.
 */
const maxCalibrationPrompts = 8
const lettersPerWord = 4

type GeneratedSource = Extract<PayloadSource, { kind: 'generated' }>

/**
 * Makes prompts that fit the context of the server, and a remark where they had to be cut.
 * @param context tokens of prompt and answer together; undefined: unlimited
 * @param countByServer the server's count of a prompt's tokens, where it reports one; its errors
 * are passed on
 * @throws PayloadError as `makePrompts`
 */
export async function makeFittingPrompts(
  context: number | undefined,
  { prompts: spec = defaultPrompts, seed, count: promptCount }: GeneratedSource,
  countByServer: (prompt: Prompt) => Promise<number | undefined>,
): Promise<{ readonly prompts: readonly Prompt[]; readonly remarks: readonly string[] }> {
  const prompts = makePrompts(spec, seed, promptCount)
  if (context === undefined) return { prompts, remarks: [] }
  const worstCase: ContextFit = {
    context,
    perToken: maxPerWord,
    perTokenError: 0,
    perMessage: maxPerMessage,
  }
  if (doAllFit(prompts, worstCase)) return { prompts, remarks: [] }
  const fit = { context, ...(await calibrateCount(context, spec, prompts, seed, countByServer)) }
  if (doAllFit(prompts, fit)) return { prompts, remarks: [] }
  const cutPrompts = makePrompts(spec, seed, promptCount, fit)
  return { prompts: cutPrompts, remarks: [describeCuts(cutPrompts, context)] }
}

const doAllFit = (prompts: readonly Prompt[], fit: ContextFit): boolean =>
  prompts.every(({ inputTokens, outputTokens, messages }) =>
    fitsContext(fit, inputTokens, outputTokens, messages.length),
  )

/**
 * Calibrates the server's token count with two prompts, one twice as long: the slope is the tokens
 * per token that we count, the intercept is the chat template.
 */
async function calibrateCount(
  context: number,
  spec: PromptSpec,
  prompts: readonly Prompt[],
  seed: number,
  countByServer: (prompt: Prompt) => Promise<number | undefined>,
): Promise<Omit<ContextFit, 'context'>> {
  const half = Math.max(1, Math.min(maxCalibrationWords, Math.floor(context / maxPerWord)) >> 1)
  const countOwn = createTokenCounter(spec.tokenizer)
  const makePrompt = (tokens: number): Prompt => {
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
  const calibrate = async (short: Prompt, long: Prompt) => {
    const shortTokens = await countByServer(short)
    const longTokens = await countByServer(long)
    if (shortTokens === undefined || longTokens === undefined) return { perToken: 1, perMessage: 0 }
    const ownDifference = countOwn(long.text) - countOwn(short.text)
    const perToken = Math.max(1, (longTokens - shortTokens) / Math.max(1, ownDifference))
    return { perToken, perMessage: Math.max(0, shortTokens - perToken * countOwn(short.text)) }
  }
  if (spec.file !== undefined) {
    // Texts of a file vary, so the largest count among some of the longer ones is used.
    const longer = prompts
      .toSorted((a, b) => b.inputTokens - a.inputTokens)
      .slice(0, Math.ceil(prompts.length / 2))
    const tries: Awaited<ReturnType<typeof calibrate>>[] = []
    for (let i = 0; i < Math.min(maxCalibrationPrompts, longer.length); i++) {
      const prompt = longer[Math.floor((i * longer.length) / maxCalibrationPrompts)]!
      const sample = prompt.text.slice(0, lettersPerWord * 2 * half)
      tries.push(
        await calibrate(
          replaceText(prompt, sample.slice(0, Math.ceil(sample.length / 2))),
          replaceText(prompt, sample),
        ),
      )
    }
    const findMax = (figure: 'perToken' | 'perMessage') =>
      Math.max(...tries.map((result) => result[figure]))
    return { perToken: findMax('perToken'), perTokenError: 0, perMessage: findMax('perMessage') }
  }
  const short = makePrompt(half)
  const doubleText = `${short.text} ${short.text}`
  const { perToken, perMessage } = await calibrate(
    short,
    spec.tokenizer === undefined ? replaceText(short, doubleText) : makePrompt(2 * half),
  )
  return { perToken, perTokenError: Math.sqrt((perToken - 1) / half), perMessage }
}

/** Creates a prompt with another text, that asks for an answer of one token. */
const replaceText = (prompt: Prompt, text: string): Prompt => ({
  ...prompt,
  text,
  messages: [text],
  outputTokens: 1,
})

/** Tells the user how prompts were changed to fit the context. */
function describeCuts(prompts: readonly Prompt[], context: number): string {
  const cut = prompts.filter(({ isCut }) => isCut).length
  const endedConversations = prompts.reduce(
    (sum, prompt) => sum + (prompt.endedConversations ?? 0),
    0,
  )
  const changes = [
    ...(cut > 0 ? [`${cut} of ${prompts.length} requests were cut`] : []),
    ...(endedConversations > 0 ? [`${endedConversations} conversations ended early`] : []),
  ]
  return (
    `the server takes ${context} tokens of prompt and answer together: ${changes.join(' and ')} to fit ` +
    `(longest prompt ${findMaxTokens(prompts, 'inputTokens')}, longest answer ${findMaxTokens(prompts, 'outputTokens')} tokens now)`
  )
}

const findMaxTokens = (prompts: readonly Prompt[], what: 'inputTokens' | 'outputTokens'): number =>
  prompts.reduce((max, prompt) => Math.max(max, prompt[what]), 0)
