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
  isCancelled: boolean
}

/** A job in its slot. */
interface Sequence {
  readonly job: Job
  readonly slot: LlamaSequence
  readonly text: TokenText
  /** Tokens to compute: the remaining prompt, then the last token. */
  pendingTokens: readonly Token[]
  produced: number
  /** Number of the last step that computed it. */
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
  readonly #freeSlots: LlamaSequence[]
  readonly #slots: readonly LlamaSequence[]
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
    slots: readonly LlamaSequence[],
    private readonly options: GgufOptions,
  ) {
    this.#slots = slots
    this.#freeSlots = [...slots]
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
  /** Time in which at least one sequence was running. */
  get busyMs(): number {
    return this.#busyMs + (this.#busySince === undefined ? 0 : performance.now() - this.#busySince)
  }
  /** Share of the cache that contains tokens, of running or earlier sequences, 0-1. */
  get cacheUse(): number {
    const usedTokens = this.#slots.reduce((sum, { contextTokens }) => sum + contextTokens.length, 0)
    return usedTokens / (this.#slots.length * this.maxModelLength)
  }

  read(text: string): readonly Token[] {
    const { bos, shouldPrependBosToken } = this.model.tokens
    const tokens = this.model.tokenize(text)
    return shouldPrependBosToken && bos !== null ? [bos, ...tokens] : tokens
  }

  add(prompt: readonly Token[], completion: Completion): (() => void) | undefined {
    if (this.#closed || this.#waiting.length >= this.options.queueLimit) return undefined
    const job: Job = { prompt, completion, isCancelled: false }
    this.#waiting.push(job)
    this.#working ??= this.#runSteps()
    return () => {
      job.isCancelled = true
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
      for (const sequence of this.#running.filter(({ job }) => job.isCancelled))
        this.#release(sequence)
      await this.#admit()
      if (this.#running.length > 0) await this.#step()
      // Checked in the same event-loop turn in which the loop ends, so that no request is missed.
      else if (this.#waiting.length === 0) break
    }
    for (const sequence of [...this.#running]) this.#release(sequence)
    this.#busyMs = this.busyMs
    this.#busySince = undefined
    this.#working = undefined
  }

  async #admit(): Promise<void> {
    while (this.#waiting.length > 0 && this.#freeSlots.length > 0) {
      const job = this.#waiting.shift()!
      const { index, commonLength } = this.#findBestSlot(job.prompt)
      const [slot] = this.#freeSlots.splice(index, 1)
      const sequence: Sequence = {
        job,
        slot: slot!,
        text: new TokenText(this.model),
        pendingTokens: job.prompt.slice(commonLength),
        produced: 0,
        step: 0,
      }
      this.#running.push(sequence)
      try {
        const usedTokens = slot!.contextTokens.length
        if (usedTokens > commonLength)
          await slot!.eraseContextTokenRanges([{ start: commonLength, end: usedTokens }])
        this.prefixHitTokens += commonLength
      } catch (error) {
        this.#fail(sequence, error)
      }
    }
  }

  /**
   * Finds the free slot with the longest common prefix, and its length; the last token is always
   * computed. Among equals, the least recently used slot.
   */
  #findBestSlot(prompt: readonly Token[]): {
    readonly index: number
    readonly commonLength: number
  } {
    if (!this.options.prefixCaching) return { index: 0, commonLength: 0 }
    const commonLengths = this.#freeSlots.map(({ contextTokens }) => {
      const differs = prompt.findIndex((token, i) => token !== contextTokens[i])
      return Math.min(differs === -1 ? prompt.length : differs, prompt.length - 1)
    })
    const commonLength = Math.max(...commonLengths)
    return { index: commonLengths.indexOf(commonLength), commonLength }
  }

  /** Submits a batch, which the context computes in one pass. */
  async #step(): Promise<void> {
    const batch = this.#planBatch()
    this.steps += 1
    this.stepSequences += batch.length
    await Promise.all(
      batch.map(async ({ sequence, count }) => {
        try {
          sequence.step = this.steps
          const results = await sequence.slot.controlledEvaluate(
            createInput(sequence.pendingTokens, count),
          )
          sequence.pendingTokens = sequence.pendingTokens.slice(count)
          if (sequence.pendingTokens.length === 0)
            this.#handleToken(sequence, results.at(-1)?.next?.token)
        } catch (error) {
          this.#fail(sequence, error)
        }
      }),
    )
  }

  #planBatch(): { readonly sequence: Sequence; readonly count: number }[] {
    let remainingTokens = this.options.batchSize
    // If there are more than a batch takes, those that waited longest come first.
    const decoding = this.#running
      .filter(({ pendingTokens }) => pendingTokens.length === 1)
      .sort((a, b) => a.step - b.step)
    const prefilling = this.#running.filter(({ pendingTokens }) => pendingTokens.length > 1)
    return [...decoding, ...prefilling].flatMap((sequence) => {
      const count = Math.min(sequence.pendingTokens.length, remainingTokens)
      remainingTokens -= count
      return count > 0 ? [{ sequence, count }] : []
    })
  }

  #handleToken(sequence: Sequence, token: Token | null | undefined): void {
    const { job, text } = sequence
    if (job.isCancelled || this.#closed) return
    if (token === undefined || token === null) throw new Error('llama.cpp returned no token')
    const { maxTokens, ignoreEos, token: reportToken } = job.completion
    sequence.produced++
    const isEnd = !ignoreEos && this.model.isEogToken(token)
    const end = isEnd ? 'stop' : sequence.produced >= maxTokens ? 'length' : undefined
    if (end) this.#release(sequence)
    else sequence.pendingTokens = [token]
    reportToken(isEnd ? '' : text.addToken(token, end !== undefined), end)
  }

  #fail(sequence: Sequence, error: unknown): void {
    this.#release(sequence)
    if (!sequence.job.isCancelled)
      sequence.job.completion.failed(error instanceof Error ? error : new Error(String(error)))
  }

  /** Ends a sequence, and frees its slot. */
  #release(sequence: Sequence): void {
    if (!this.#running.includes(sequence)) return
    this.#running = this.#running.filter((other) => other !== sequence)
    this.#freeSlots.push(sequence.slot)
  }
}

/** Creates the input of the first `count` tokens; asks for the next token if they are all. */
const createInput = (pendingTokens: readonly Token[], count: number): EvaluationInput[] =>
  count < pendingTokens.length
    ? [...pendingTokens.slice(0, count)]
    : [...pendingTokens.slice(0, -1), [pendingTokens.at(-1)!, { generateNext: { token: true } }]]

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
