/**
 * Continuous batching (Yu et al., OSDI 2022) over a paged cache (Kwon et al., SOSP 2023) with
 * chunked prefill (Agrawal et al., OSDI 2024), in the order of vLLM's scheduler: running sequences
 * first, then waiting ones; a sequence without room preempts the newest one, which starts over.
 * Other servers run prompts before decoding, or admit only sequences with guaranteed room. It has
 * no clock: its caller knows how long a step takes.
 */
import { createRng } from '../../../search/rng.ts'
import type { Speculation } from './speculation.ts'
import type { StepWork } from './step-model.ts'

export interface SchedulerLimits {
  /** Maximum of concurrent sequences. */
  readonly maxSequences: number
  /** Tokens of one step. */
  readonly maxBatchedTokens: number
  /** Capacity of the cache in tokens. */
  readonly cacheTokens: number
  /** Sequences that may wait. */
  readonly queueLimit: number
  /**
   * Prompts run in separate steps, once waiting ones exceed this share of the decoding ones, or
   * after this many decoding steps. Absent: chunked prefill together with decoding.
   */
  readonly separatePrefill?: { readonly waitingShare: number; readonly decodingSteps: number }
  /** Admits a sequence only if its whole answer has room, so that none is preempted. */
  readonly reserves?: boolean
  /**
   * Decoding sequences have tokens drafted, at most the rest of the answer, and accept a random
   * number of them.
   */
  readonly speculation?: Pick<Speculation, 'tokens' | 'acceptance'>
}

/** Tokens of one cache block. */
export const blockTokens = 16

/** A sequence, with its callbacks. */
export interface Sequence {
  readonly promptTokens: number
  readonly outputTokens: number
  /**
   * Prompt tokens computed by another server, whose keys and values are transferred; below
   * `promptTokens`.
   */
  readonly computedTokens?: number
  /**
   * Hashes of the prompt's whole blocks, each over everything before it too: equal hashes are equal
   * prefixes.
   */
  readonly prefix?: readonly number[]
  /** Called when a token exists, with all unreported ones before it; `last`: it was the last. */
  token(index: number, last: boolean): void
}

interface RunningSequence {
  readonly sequence: Sequence
  /** Tokens in the cache. */
  cached: number
  /** Output tokens that exist. */
  produced: number
  blocks: number
  /** Whether it is running: not waiting, not removed, not done. */
  isActive: boolean
}

/** Work of one sequence in a step. */
interface SequenceWork {
  readonly running: RunningSequence
  readonly tokens: number
  /** Draft tokens among them. */
  readonly drafts: number
}

/** A step that is scheduled and not yet done. */
export interface Step {
  readonly work: StepWork
  /** Sequences that take part. */
  readonly sequences: number
  /**
   * Number of times in a row that the same step would be scheduled if no request arrived: until a
   * sequence ends or finds no room. 1 with prompts, drafts or first tokens in it. Each time, the
   * context of each sequence grows by a token.
   */
  repeats(): number
  /** Call at the end of the step, or of `times` equal steps; tokens in between are not reported. */
  finish(times?: number): void
}

export class ContinuousBatcher {
  readonly #limits: SchedulerLimits
  readonly #totalBlocks: number
  #waiting: RunningSequence[] = []
  readonly #running: RunningSequence[] = []
  #freeBlocks: number
  #decodesSincePrompts = 0
  /** Blocks that the running sequences will have at their ends. */
  #reservedBlocks = 0
  /** Cached prefixes, least recently used first. */
  readonly #cachedPrefixes = new Set<number>()
  /** A fixed seed: randomness must not rank configurations. */
  readonly #rng = createRng('speculative decoding')
  preemptions = 0
  prefixHitTokens = 0
  /** Accepted draft tokens, and the number of drafts. */
  acceptedTokens = 0
  draftings = 0

  constructor(limits: SchedulerLimits) {
    this.#limits = limits
    this.#totalBlocks = Math.floor(limits.cacheTokens / blockTokens)
    this.#freeBlocks = this.#totalBlocks
  }

  get waiting(): number {
    return this.#waiting.length
  }
  get running(): number {
    return this.#running.length
  }
  /** 0-1. */
  get cacheUse(): number {
    return 1 - this.#freeBlocks / this.#totalBlocks
  }

  /**
   * Adds a sequence, which must fit the cache alone.
   * @returns false if the queue is full
   */
  add(sequence: Sequence): boolean {
    if (this.#waiting.length >= this.#limits.queueLimit) return false
    this.#waiting.push({ sequence, cached: 0, produced: 0, blocks: 0, isActive: false })
    return true
  }

  /** Removes a sequence whose client disconnected. */
  remove(sequence: Sequence): void {
    this.#waiting = this.#waiting.filter((each) => each.sequence !== sequence)
    const running = this.#running.find((each) => each.sequence === sequence)
    if (!running) return
    this.#end(running)
  }

  /** Schedules the next step; undefined without work. */
  schedule(): Step | undefined {
    const separatePrefill = this.#limits.separatePrefill
    if (separatePrefill === undefined) return this.#planStep('both')
    const decodes = this.#running.filter(isDecoding).length
    const decodesFirst =
      this.#decodesSincePrompts < separatePrefill.decodingSteps &&
      this.#waiting.length < separatePrefill.waitingShare * decodes
    const step =
      (decodesFirst ? undefined : this.#planStep('prompts')) ??
      this.#planStep('decodes') ??
      this.#planStep('prompts')
    this.#decodesSincePrompts = step && step.work.decodes > 0 ? this.#decodesSincePrompts + 1 : 0
    return step
  }

  #planStep(kind: 'prompts' | 'decodes' | 'both'): Step | undefined {
    const { maxBatchedTokens, maxSequences, speculation } = this.#limits
    let budget = maxBatchedTokens
    let [prefillTokens, decodes, decodeContext, drafts, prompts, promptContext] = [0, 0, 0, 0, 0, 0]
    const parts: SequenceWork[] = []
    const preemptionsBefore = this.preemptions
    const addToStep = (running: RunningSequence): boolean => {
      const uncachedTokens = countExistingTokens(running) - running.cached
      // Drafts continue a generated token; after a prompt computed by another server, there is none.
      const draftTokens =
        speculation !== undefined && running.produced > 0 && isDecoding(running)
          ? Math.min(speculation.tokens, countRemainingTokens(running) - 1)
          : 0
      const tokens = Math.min(uncachedTokens + draftTokens, budget)
      if (tokens === 0 || !this.#grow(running, running.cached + tokens)) return false
      budget -= tokens
      const draftsInStep = Math.max(0, tokens - uncachedTokens)
      if (isDecoding(running)) {
        decodes += 1
        decodeContext += running.cached + 1
        drafts += draftsInStep
      } else {
        prompts += 1
        promptContext += running.cached
        prefillTokens += tokens
      }
      parts.push({ running, tokens, drafts: draftsInStep })
      return true
    }
    for (const running of [...this.#running]) {
      if (budget === 0) break
      if (kind !== 'both' && isDecoding(running) !== (kind === 'decodes')) continue
      while (running.isActive && !addToStep(running)) {
        const newest = this.#running.at(-1)!
        // Already part of this step: it cannot be preempted.
        if (budget === 0 || parts.some((part) => part.running === newest)) break
        // The rest of its prompt waits until another sequence ends; its computed part stays cached.
        if (newest === running && !isDecoding(running) && parts.length > 0) break
        this.#preempt(newest)
      }
    }
    // Do not admit after a preemption: the preempted sequence would preempt others.
    const admits = kind !== 'decodes' && this.preemptions === preemptionsBefore
    while (
      admits &&
      budget > 0 &&
      this.#waiting.length > 0 &&
      this.#running.length < maxSequences
    ) {
      const next = this.#waiting[0]!
      if (!this.#hasRoom(next)) break
      const hitTokens = this.#countPrefixHits(next.sequence)
      // Transferred keys and values are lost with the blocks.
      next.cached =
        next.produced > 0 ? hitTokens : Math.max(hitTokens, next.sequence.computedTokens ?? 0)
      if (!addToStep(next)) {
        next.cached = 0
        break
      }
      next.isActive = true
      this.#reservedBlocks += countFinalBlocks(next)
      this.#running.push(next)
      this.#waiting.shift()
      this.prefixHitTokens += hitTokens
    }
    if (parts.length === 0) return undefined
    const delayedDecodes = kind === 'prompts' ? this.#running.filter(isDecoding).length : 0
    const work = {
      prefillTokens,
      decodes,
      decodeContext,
      prompts,
      promptContext,
      delayedDecodes,
      ...(drafts > 0 && { drafts }),
    }
    return {
      work,
      sequences: parts.length,
      repeats: () =>
        prefillTokens > 0 || speculation !== undefined ? 1 : this.#countRepeats(parts),
      finish: (times = 1) => this.#finish(parts, times),
    }
  }

  #countRepeats(parts: readonly SequenceWork[]): number {
    const isFull =
      this.#waiting.length === 0 ||
      this.#running.length >= this.#limits.maxSequences ||
      !this.#hasRoom(this.#waiting[0]!)
    // First tokens are reported, so the step that computes them is not repeated.
    if (
      !isFull ||
      parts.length < this.#running.length ||
      parts.some(({ running }) => running.produced === 0)
    )
      return 1
    const times = Math.min(...parts.map(({ running }) => countRemainingTokens(running)))
    const blocks = parts.reduce(
      (sum, { running }) =>
        sum + Math.ceil((running.cached + times) / blockTokens) - running.blocks,
      0,
    )
    return blocks <= this.#freeBlocks ? times : 1
  }

  #finish(parts: readonly SequenceWork[], times: number): void {
    for (const { running, tokens, drafts } of parts) {
      // Removed while the step ran.
      if (!running.isActive) continue
      const accepted = this.#countAccepted(drafts)
      running.cached += tokens - drafts + accepted + times - 1
      running.produced += accepted + times - 1
      this.#grow(running, running.cached)
      if (running.cached < countExistingTokens(running)) continue
      if (running.produced === 0) this.#cachePrefix(running.sequence)
      running.produced += 1
      const last = running.produced >= running.sequence.outputTokens
      if (last) this.#end(running)
      running.sequence.token(running.produced - 1, last)
    }
  }

  /** Counts the accepted draft tokens: those before the first rejected one. */
  #countAccepted(drafts: number): number {
    if (drafts === 0) return 0
    let accepted = 0
    while (accepted < drafts && this.#rng.next() < this.#limits.speculation!.acceptance) accepted++
    this.draftings += 1
    this.acceptedTokens += accepted
    return accepted
  }

  #grow(running: RunningSequence, tokens: number): boolean {
    const newBlocks = Math.ceil(tokens / blockTokens) - running.blocks
    if (newBlocks > this.#freeBlocks) return false
    this.#freeBlocks -= newBlocks
    running.blocks += newBlocks
    return true
  }

  #hasRoom(next: RunningSequence): boolean {
    return (
      !this.#limits.reserves || this.#reservedBlocks + countFinalBlocks(next) <= this.#totalBlocks
    )
  }

  /** Frees the slot and the blocks of a sequence. */
  #end(running: RunningSequence): void {
    this.#freeBlocks += running.blocks
    this.#reservedBlocks -= countFinalBlocks(running)
    running.blocks = 0
    running.isActive = false
    this.#running.splice(this.#running.lastIndexOf(running), 1)
  }

  /** Preempts a sequence: its output is preserved, and recomputed like a prompt. */
  #preempt(running: RunningSequence): void {
    this.#end(running)
    running.cached = 0
    this.#waiting.unshift(running)
    this.preemptions += 1
  }

  /** Counts the cached tokens at the start of a prompt; its last token is always computed. */
  #countPrefixHits({ prefix = [], promptTokens }: Sequence): number {
    let blocks = 0
    while (blocks < prefix.length && this.#cachedPrefixes.has(prefix[blocks]!)) blocks++
    return Math.min(blocks * blockTokens, promptTokens - 1)
  }

  #cachePrefix({ prefix = [] }: Sequence): void {
    for (const hash of prefix) {
      this.#cachedPrefixes.delete(hash)
      this.#cachedPrefixes.add(hash)
    }
    for (const oldest of this.#cachedPrefixes) {
      if (this.#cachedPrefixes.size <= this.#totalBlocks) break
      this.#cachedPrefixes.delete(oldest)
    }
  }
}

/** Counts the existing tokens of a sequence, which must be in the cache. */
const countExistingTokens = ({ sequence, produced }: RunningSequence): number =>
  sequence.promptTokens + produced

/** Counts the remaining tokens of the answer. */
const countRemainingTokens = ({ sequence, produced }: RunningSequence): number =>
  sequence.outputTokens - produced

/** Whether its next step generates a token from the last one only. */
const isDecoding = (running: RunningSequence): boolean =>
  (running.produced > 0 || running.sequence.computedTokens !== undefined) &&
  countExistingTokens(running) - running.cached === 1

const countFinalBlocks = ({ sequence }: RunningSequence): number =>
  Math.ceil((sequence.promptTokens + sequence.outputTokens) / blockTokens)
