/**
 * Runs concurrent sequences on llama.cpp, each in its own slot of the cache. Every step contains
 * the next token of all decoding sequences and, up to the batch size, chunks of prompts in order of
 * arrival: continuous batching with chunked prefill.
 */
import type { Completion, CompletionEngine } from '../completion-engine.ts'
import type { EvaluationInput, LlamaModel, LlamaSequence, Token } from './llama-binding.ts'

interface Job {
  readonly prompt: readonly Token[]
  readonly completion: Completion
  left: boolean
}

/** A job in its place. */
interface Sequence {
  readonly job: Job
  readonly place: LlamaSequence
  readonly text: TokenText
  /** Tokens to compute: the rest of the prompt, then the last token. */
  rest: readonly Token[]
  produced: number
  /** The last one it was in, by its number. */
  step: number
}

interface GgufOptions {
  readonly device: string
  readonly maxModelLength: number
  /** Tokens of one step, of all sequences. */
  readonly batchSize: number
  readonly queueLimit: number
  /** Reuses a slot's cache for a common prefix. */
  readonly prefixCaching: boolean
  /** Frees model and context. */
  readonly dispose: () => Promise<void>
}

export class GgufEngine implements CompletionEngine<readonly Token[]> {
  readonly provenance = 'measured'
  readonly #places: LlamaSequence[]
  readonly #all: readonly LlamaSequence[]
  #waiting: Job[] = []
  /** In the order of their arrival. */
  #running: Sequence[] = []
  #working: Promise<void> | undefined
  #closed = false
  #busyMs = 0
  #busySince: number | undefined
  prefixHitTokens = 0
  /** Steps, and sequences over all of them: their ratio is the mean batch. */
  steps = 0
  stepSequences = 0

  constructor(
    private readonly model: LlamaModel,
    places: readonly LlamaSequence[],
    private readonly options: GgufOptions,
  ) {
    this.#all = places
    this.#places = [...places]
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
    return this.#running.length
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
    if (this.#closed || this.#waiting.length >= this.options.queueLimit) return undefined
    const job: Job = { prompt, completion, left: false }
    this.#waiting.push(job)
    this.#working ??= this.#runSteps()
    return () => {
      job.left = true
      this.#waiting = this.#waiting.filter((other) => other !== job)
    }
  }

  waitUntilIdle(): Promise<void> {
    return this.#working ?? Promise.resolve()
  }

  /** Running sequences end after the current step. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#waiting = []
    await this.#working
    await this.options.dispose()
  }

  /** Runs steps until there is no work. */
  async #runSteps(): Promise<void> {
    this.#busySince = performance.now()
    while (!this.#closed) {
      for (const sequence of this.#running.filter(({ job }) => job.left)) this.#leave(sequence)
      await this.#admit()
      if (this.#running.length > 0) await this.#step()
      // Checked in the same turn as the end, so that no request is missed.
      else if (this.#waiting.length === 0) break
    }
    for (const sequence of [...this.#running]) this.#leave(sequence)
    this.#busyMs = this.busyMs
    this.#busySince = undefined
    this.#working = undefined
  }

  async #admit(): Promise<void> {
    while (this.#waiting.length > 0 && this.#places.length > 0) {
      const job = this.#waiting.shift()!
      const { at, shared } = this.#findBestSlot(job.prompt)
      const [place] = this.#places.splice(at, 1)
      const sequence: Sequence = {
        job,
        place: place!,
        text: new TokenText(this.model),
        rest: job.prompt.slice(shared),
        produced: 0,
        step: 0,
      }
      this.#running.push(sequence)
      try {
        const held = place!.contextTokens.length
        if (held > shared) await place!.eraseContextTokenRanges([{ start: shared, end: held }])
        this.prefixHitTokens += shared
      } catch (error) {
        this.#fail(sequence, error)
      }
    }
  }

  /**
   * Finds the slot with the longest common prefix, and its length; the last token is always
   * computed. Among equals, the least recently used.
   */
  #findBestSlot(prompt: readonly Token[]): { readonly at: number; readonly shared: number } {
    if (!this.options.prefixCaching) return { at: 0, shared: 0 }
    const shared = this.#places.map(({ contextTokens }) => {
      const differs = prompt.findIndex((token, i) => token !== contextTokens[i])
      return Math.min(differs === -1 ? prompt.length : differs, prompt.length - 1)
    })
    const most = Math.max(...shared)
    return { at: shared.indexOf(most), shared: most }
  }

  /** Submitted to the context at once, which computes it as one batch. */
  async #step(): Promise<void> {
    const batch = this.#planBatch()
    this.steps += 1
    this.stepSequences += batch.length
    await Promise.all(
      batch.map(async ({ sequence, count }) => {
        try {
          sequence.step = this.steps
          const results = await sequence.place.controlledEvaluate(createInput(sequence.rest, count))
          sequence.rest = sequence.rest.slice(count)
          if (sequence.rest.length === 0) this.#take(sequence, results.at(-1)?.next?.token)
        } catch (error) {
          this.#fail(sequence, error)
        }
      }),
    )
  }

  #planBatch(): { readonly sequence: Sequence; readonly count: number }[] {
    let room = this.options.batchSize
    // Where they are more than a batch takes, those that waited longest.
    const answering = this.#running
      .filter(({ rest }) => rest.length === 1)
      .sort((a, b) => a.step - b.step)
    const reading = this.#running.filter(({ rest }) => rest.length > 1)
    return [...answering, ...reading].flatMap((sequence) => {
      const count = Math.min(sequence.rest.length, room)
      room -= count
      return count > 0 ? [{ sequence, count }] : []
    })
  }

  #take(sequence: Sequence, token: Token | null | undefined): void {
    const { job, text } = sequence
    if (job.left || this.#closed) return
    if (token === undefined || token === null) throw new Error('llama.cpp returned no token')
    const { maxTokens, ignoreEos, token: tell } = job.completion
    sequence.produced++
    const stops = !ignoreEos && this.model.isEogToken(token)
    const end = stops ? 'stop' : sequence.produced >= maxTokens ? 'length' : undefined
    if (end) this.#leave(sequence)
    else sequence.rest = [token]
    tell(stops ? '' : text.addToken(token, end !== undefined), end)
  }

  #fail(sequence: Sequence, error: unknown): void {
    this.#leave(sequence)
    if (!sequence.job.left)
      sequence.job.completion.failed(error instanceof Error ? error : new Error(String(error)))
  }

  /** Its place is the next one's. */
  #leave(sequence: Sequence): void {
    if (!this.#running.includes(sequence)) return
    this.#running = this.#running.filter((other) => other !== sequence)
    this.#places.push(sequence.place)
  }
}

/** The first `count` tokens, with the next token if they complete the prompt. */
const createInput = (rest: readonly Token[], count: number): EvaluationInput[] =>
  count < rest.length
    ? [...rest.slice(0, count)]
    : [...rest.slice(0, -1), [rest.at(-1)!, { generateNext: { token: true } }]]

/** Decodes tokens incrementally: characters of several byte tokens are emitted once complete. */
class TokenText {
  #emitted: Token[] = []
  #pending: Token[] = []

  constructor(private readonly model: LlamaModel) {}

  addToken(token: Token, last: boolean): string {
    this.#pending.push(token)
    const text = this.model.detokenize(this.#pending, true, this.#emitted)
    // A character has four bytes at most.
    if (text.endsWith('\uFFFD') && !last && this.#pending.length < 4) return ''
    this.#emitted = [...this.#emitted, ...this.#pending].slice(-4)
    this.#pending = []
    return text
  }
}
