/**
 * Several sequences over llama.cpp: a place for each that may be under way, one context for all. Every step of the device takes the next token of all
 * that are ready with theirs and, in what is left of the batch, pieces of prompts in the order of their arrival.
 */
import type { Completion, CompletionEngine } from '../completion-engine.ts'
import type { BatchItem, EvaluationInput, LlamaModel, LlamaSequence, Token } from './llama-binding.ts'

interface Job {
  readonly prompt: readonly Token[]
  readonly completion: Completion
  left: boolean
}

interface GgufOptions {
  readonly device: string
  readonly maxModelLength: number
  readonly queueLimit: number
  /** What a place still holds of a beginning is not computed again. */
  readonly prefixCaching: boolean
  /** Frees model and context. */
  readonly dispose: () => Promise<void>
}

/** Counts what the device does, a batch at a time, and says what goes into the next one. */
export class BatchSchedule {
  /** Steps, and sequences over all of them: their ratio is the mean batch. */
  steps = 0
  stepSequences = 0

  readonly next = ({ items, size }: { readonly items: readonly BatchItem[]; readonly size: number }) => {
    const answering = items.filter(({ tokens }) => tokens.length === 1)
    const reading = items.filter(({ tokens }) => tokens.length > 1)
    let room = size
    const batch = [...answering, ...reading].flatMap((item) => {
      const processAmount = Math.min(item.tokens.length, room)
      room -= processAmount
      return processAmount > 0 ? [{ item, processAmount }] : []
    })
    this.steps += 1
    this.stepSequences += batch.length
    return batch
  }
}

export class GgufEngine implements CompletionEngine<readonly Token[]> {
  readonly provenance = 'measured'
  readonly #places: LlamaSequence[]
  readonly #all: readonly LlamaSequence[]
  #waiting: Job[] = []
  readonly #running = new Set<Promise<void>>()
  #idle: (() => void)[] = []
  #closed = false
  #busyMs = 0
  #busySince: number | undefined
  prefixHitTokens = 0

  constructor(
    private readonly model: LlamaModel,
    sequences: readonly LlamaSequence[],
    private readonly options: GgufOptions,
  ) {
    this.#all = sequences
    this.#places = [...sequences]
  }

  get device(): string {
    return this.options.device
  }
  get maxModelLength(): number {
    return this.options.maxModelLength
  }
  get waiting(): number {
    return this.#waiting.length
  }
  get running(): number {
    return this.#running.size
  }
  /** Time in which some sequence was under way. */
  get busyMs(): number {
    return this.#busyMs + (this.#busySince === undefined ? 0 : performance.now() - this.#busySince)
  }
  /** Share of the cache that holds tokens, of sequences under way or before, 0-1. */
  get cacheUse(): number {
    const held = this.#all.reduce((sum, { contextTokens }) => sum + contextTokens.length, 0)
    return held / (this.#all.length * this.maxModelLength)
  }

  read(text: string): readonly Token[] {
    const { bos, shouldPrependBosToken } = this.model.tokens
    const tokens = this.model.tokenize(text)
    return shouldPrependBosToken && bos !== null ? [bos, ...tokens] : tokens
  }

  add(prompt: readonly Token[], completion: Completion): (() => void) | undefined {
    if (this.#waiting.length >= this.options.queueLimit) return undefined
    const job: Job = { prompt, completion, left: false }
    this.#waiting.push(job)
    this.#admit()
    return () => {
      job.left = true
      this.#waiting = this.#waiting.filter((other) => other !== job)
    }
  }

  drained(): Promise<void> {
    return this.#running.size === 0 ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve))
  }

  /** What is under way ends at its next token. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#waiting = []
    await Promise.all(this.#running)
    await this.options.dispose()
  }

  #admit(): void {
    while (!this.#closed && this.#waiting.length > 0 && this.#places.length > 0) {
      const job = this.#waiting.shift()!
      const { at, shared } = this.#best(job.prompt)
      const [place] = this.#places.splice(at, 1)
      this.#busySince ??= performance.now()
      const run = this.#run(place!, shared, job).finally(() => {
        this.#running.delete(run)
        this.#places.push(place!)
        this.#admit()
        if (this.#running.size === 0) this.#rest()
      })
      this.#running.add(run)
    }
  }

  #rest(): void {
    this.#busyMs = this.busyMs
    this.#busySince = undefined
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** The place that holds most of the prompt's beginning, and how much of it; its last token is always computed. The longest unused of equals. */
  #best(prompt: readonly Token[]): { readonly at: number; readonly shared: number } {
    if (!this.options.prefixCaching) return { at: 0, shared: 0 }
    const shared = this.#places.map(({ contextTokens }) => {
      const differs = prompt.findIndex((token, i) => token !== contextTokens[i])
      return Math.min(differs === -1 ? prompt.length : differs, prompt.length - 1)
    })
    const most = Math.max(...shared)
    return { at: shared.indexOf(most), shared: most }
  }

  async #run(place: LlamaSequence, shared: number, job: Job): Promise<void> {
    try {
      const held = place.contextTokens.length
      if (held > shared) await place.eraseContextTokenRanges([{ start: shared, end: held }])
      this.prefixHitTokens += shared
      await this.#answer(place, job.prompt.slice(shared), job)
    } catch (error) {
      if (!job.left) job.completion.failed(error instanceof Error ? error : new Error(String(error)))
    }
  }

  async #answer(place: LlamaSequence, rest: readonly Token[], job: Job): Promise<void> {
    const { maxTokens, ignoreEos, token: tell } = job.completion
    const text = new TokenText(this.model)
    let input: EvaluationInput[] = [...rest.slice(0, -1), wanted(rest.at(-1)!)]
    for (let produced = 1; ; produced++) {
      const results = await place.controlledEvaluate(input)
      if (job.left || this.#closed) return
      const token = results.at(-1)?.next?.token
      if (token === undefined || token === null) throw new Error('llama.cpp gave no token')
      const stops = !ignoreEos && this.model.isEogToken(token)
      const end = stops ? 'stop' : produced >= maxTokens ? 'length' : undefined
      tell(stops ? '' : text.after(token, end !== undefined), end)
      if (end) return
      input = [wanted(token)]
    }
  }
}

const wanted = (token: Token): EvaluationInput => [token, { generateNext: { token: true } }]

/** Tokens as text, bit by bit: of a character of several byte tokens nothing is told until it is whole. */
class TokenText {
  #told: Token[] = []
  #pending: Token[] = []

  constructor(private readonly model: LlamaModel) {}

  after(token: Token, last: boolean): string {
    this.#pending.push(token)
    const text = this.model.detokenize(this.#pending, true, this.#told)
    // A character has four bytes at most.
    if (text.endsWith('\uFFFD') && !last && this.#pending.length < 4) return ''
    this.#told = [...this.#told, ...this.#pending].slice(-4)
    this.#pending = []
    return text
  }
}
