/**
 * Continuous batching (Yu et al., OSDI 2022) over a paged cache (Kwon et al., SOSP 2023) with
 * chunked prefill (Agrawal et al., OSDI 2024), in the order of vLLM's scheduler: running sequences
 * first, then waiting ones; a sequence that finds no room makes the newest one yield its blocks and
 * start over. Other servers compute prompts before they decode, or let in only what will find room.
 * No clock: whoever drives it knows how long a step takes.
 */
import { createRng } from '../../../search/rng.ts'
import type { Speculation } from './speculation.ts'
import type { StepWork } from './step-model.ts'

export interface SchedulerLimits {
  /** Sequences under way at once. */
  readonly maxSequences: number
  /** Tokens of one step. */
  readonly maxBatchedTokens: number
  /** Tokens that the cache holds. */
  readonly cacheTokens: number
  /** Sequences that may wait. */
  readonly queueLimit: number
  /**
   * Prompts are computed in steps of their own, as soon as those that wait are such a share of
   * those that decode, or so many steps of decoding after the last; absent: in pieces beside
   * decoding.
   */
  readonly promptsApart?: { readonly waitingShare: number; readonly decodingSteps: number }
  /** A sequence is let in once its whole answer has room, so that none has to start over. */
  readonly reserves?: boolean
  /**
   * Sequences that decode have tokens drafted, as many as their answers still lack at most, and
   * keep a random number of them.
   */
  readonly speculation?: Pick<Speculation, 'tokens' | 'acceptance'>
}

/** Tokens of one cache block. */
export const blockTokens = 16

/** What a sequence is, and who hears of it. */
export interface Sequence {
  readonly promptTokens: number
  readonly outputTokens: number
  /**
   * Of the prompt, computed by another server, whose keys and values are there when it is let in;
   * below `promptTokens`.
   */
  readonly computedTokens?: number
  /**
   * Hashes of the prompt's whole blocks, each over everything before it too: equal hashes are equal
   * prefixes.
   */
  readonly prefix?: readonly number[]
  /** A token is there, and with it all before it that were not told of; `last`: it was the last. */
  token(index: number, last: boolean): void
}

interface Running {
  readonly sequence: Sequence
  /** Tokens in the cache. */
  cached: number
  /** Output tokens that exist. */
  produced: number
  blocks: number
  /** Under way: not waiting, not removed, not done. */
  active: boolean
}

/** What one sequence does in a step. */
interface Part {
  readonly running: Running
  readonly tokens: number
  /** Those of them that were only drafted. */
  readonly drafts: number
}

/** A step that is scheduled and not yet done. */
export interface Step {
  readonly work: StepWork
  /** Sequences that take part. */
  readonly sequences: number
  /**
   * How many times in a row it would be scheduled just so if nobody came: until a sequence ends or
   * finds no room. 1 with prompts, drafts or first tokens in it. Its context grows by a token a
   * sequence each time.
   */
  repeats(): number
  /**
   * To be called when its time is over, or that of so many of its kind: tokens between are then not
   * told of.
   */
  finish(times?: number): void
}

export class ContinuousBatcher {
  readonly #limits: SchedulerLimits
  readonly #totalBlocks: number
  #waiting: Running[] = []
  readonly #running: Running[] = []
  #freeBlocks: number
  #decodesSincePrompts = 0
  /** Blocks that the running sequences will have at their ends. */
  #promised = 0
  /** Prefixes whose keys and values were computed lately, oldest first. */
  readonly #known = new Set<number>()
  /** From one seed: chance does not rank configurations. */
  readonly #rng = createRng('speculative decoding')
  preemptions = 0
  prefixHitTokens = 0
  /** Draft tokens that were kept, and how often an answer had some drafted. */
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

  /** False when too many wait. The sequence must fit the cache alone. */
  add(sequence: Sequence): boolean {
    if (this.#waiting.length >= this.#limits.queueLimit) return false
    this.#waiting.push({ sequence, cached: 0, produced: 0, blocks: 0, active: false })
    return true
  }

  /** Forgets a sequence whose client has gone. */
  remove(sequence: Sequence): void {
    this.#waiting = this.#waiting.filter((each) => each.sequence !== sequence)
    const found = this.#running.find((each) => each.sequence === sequence)
    if (!found) return
    this.#end(found)
  }

  /** The next step; undefined when there is nothing to do. */
  schedule(): Step | undefined {
    const apart = this.#limits.promptsApart
    if (apart === undefined) return this.#step('both')
    const decodes = this.#running.filter(decoding).length
    const decodesFirst =
      this.#decodesSincePrompts < apart.decodingSteps &&
      this.#waiting.length < apart.waitingShare * decodes
    const step =
      (decodesFirst ? undefined : this.#step('prompts')) ??
      this.#step('decodes') ??
      this.#step('prompts')
    this.#decodesSincePrompts = step && step.work.decodes > 0 ? this.#decodesSincePrompts + 1 : 0
    return step
  }

  #step(of: 'prompts' | 'decodes' | 'both'): Step | undefined {
    const { maxBatchedTokens, maxSequences, speculation } = this.#limits
    let budget = maxBatchedTokens
    let [prefillTokens, decodes, decodeContext, drafts, prompts, promptContext] = [0, 0, 0, 0, 0, 0]
    const parts: Part[] = []
    const preemptionsBefore = this.preemptions
    const take = (running: Running): boolean => {
      const missing = known(running) - running.cached
      // Of a token that was made here: the first one, of a prompt that came computed, has none.
      const drafted =
        speculation !== undefined && running.produced > 0 && decoding(running)
          ? Math.min(speculation.tokens, lacking(running) - 1)
          : 0
      const tokens = Math.min(missing + drafted, budget)
      if (tokens === 0 || !this.#grow(running, running.cached + tokens)) return false
      budget -= tokens
      const own = Math.max(0, tokens - missing)
      if (decoding(running)) {
        decodes += 1
        decodeContext += running.cached + 1
        drafts += own
      } else {
        prompts += 1
        promptContext += running.cached
        prefillTokens += tokens
      }
      parts.push({ running, tokens, drafts: own })
      return true
    }
    for (const running of [...this.#running]) {
      if (budget === 0) break
      if (of !== 'both' && decoding(running) !== (of === 'decodes')) continue
      while (running.active && !take(running)) {
        const newest = this.#running.at(-1)!
        // Already part of this step: what it holds is needed now.
        if (budget === 0 || parts.some((part) => part.running === newest)) break
        // The rest of its prompt waits until another ends; what is computed of it would be found
        // again.
        if (newest === running && !decoding(running) && parts.length > 0) break
        this.#preempt(newest)
      }
    }
    // What was just pushed out would only come back to push others out.
    const admits = of !== 'decodes' && this.preemptions === preemptionsBefore
    while (
      admits &&
      budget > 0 &&
      this.#waiting.length > 0 &&
      this.#running.length < maxSequences
    ) {
      const next = this.#waiting[0]!
      if (!this.#hasRoom(next)) break
      const hit = this.#hit(next.sequence)
      // What was moved here is lost with its blocks.
      next.cached = next.produced > 0 ? hit : Math.max(hit, next.sequence.computedTokens ?? 0)
      if (!take(next)) {
        next.cached = 0
        break
      }
      next.active = true
      this.#promised += finalBlocks(next)
      this.#running.push(next)
      this.#waiting.shift()
      this.prefixHitTokens += hit
    }
    if (parts.length === 0) return undefined
    const heldUp = of === 'prompts' ? this.#running.filter(decoding).length : 0
    const work = {
      prefillTokens,
      decodes,
      decodeContext,
      prompts,
      promptContext,
      heldUp,
      ...(drafts > 0 && { drafts }),
    }
    return {
      work,
      sequences: parts.length,
      repeats: () => (prefillTokens > 0 || speculation !== undefined ? 1 : this.#repeats(parts)),
      finish: (times = 1) => this.#finish(parts, times),
    }
  }

  #repeats(parts: readonly Part[]): number {
    const full =
      this.#waiting.length === 0 ||
      this.#running.length >= this.#limits.maxSequences ||
      !this.#hasRoom(this.#waiting[0]!)
    // First tokens are told of.
    if (
      !full ||
      parts.length < this.#running.length ||
      parts.some(({ running }) => running.produced === 0)
    )
      return 1
    const times = Math.min(...parts.map(({ running }) => lacking(running)))
    const blocks = parts.reduce(
      (sum, { running }) =>
        sum + Math.ceil((running.cached + times) / blockTokens) - running.blocks,
      0,
    )
    return blocks <= this.#freeBlocks ? times : 1
  }

  #finish(parts: readonly Part[], times: number): void {
    for (const { running, tokens, drafts } of parts) {
      // Removed while the step ran.
      if (!running.active) continue
      const kept = this.#kept(drafts)
      running.cached += tokens - drafts + kept + times - 1
      running.produced += kept + times - 1
      this.#grow(running, running.cached)
      if (running.cached < known(running)) continue
      if (running.produced === 0) this.#remember(running.sequence)
      running.produced += 1
      const last = running.produced >= running.sequence.outputTokens
      if (last) this.#end(running)
      running.sequence.token(running.produced - 1, last)
    }
  }

  /** How many of so many draft tokens are accepted: those before the first that is not. */
  #kept(drafts: number): number {
    if (drafts === 0) return 0
    let kept = 0
    while (kept < drafts && this.#rng.next() < this.#limits.speculation!.acceptance) kept++
    this.draftings += 1
    this.acceptedTokens += kept
    return kept
  }

  #grow(running: Running, tokens: number): boolean {
    const more = Math.ceil(tokens / blockTokens) - running.blocks
    if (more > this.#freeBlocks) return false
    this.#freeBlocks -= more
    running.blocks += more
    return true
  }

  #hasRoom(next: Running): boolean {
    return !this.#limits.reserves || this.#promised + finalBlocks(next) <= this.#totalBlocks
  }

  /** Its place and its blocks are free again. */
  #end(running: Running): void {
    this.#freeBlocks += running.blocks
    this.#promised -= finalBlocks(running)
    running.blocks = 0
    running.active = false
    this.#running.splice(this.#running.lastIndexOf(running), 1)
  }

  /** Its output so far is kept, and computed again as if it were prompt. */
  #preempt(running: Running): void {
    this.#end(running)
    running.cached = 0
    this.#waiting.unshift(running)
    this.preemptions += 1
  }

  /** Tokens of the prompt's start that need not be computed; the last token always is. */
  #hit({ prefix = [], promptTokens }: Sequence): number {
    let blocks = 0
    while (blocks < prefix.length && this.#known.has(prefix[blocks]!)) blocks++
    return Math.min(blocks * blockTokens, promptTokens - 1)
  }

  #remember({ prefix = [] }: Sequence): void {
    for (const hash of prefix) {
      this.#known.delete(hash)
      this.#known.add(hash)
    }
    for (const oldest of this.#known) {
      if (this.#known.size <= this.#totalBlocks) break
      this.#known.delete(oldest)
    }
  }
}

/** Tokens of a sequence that exist: all but the one to come must be in the cache. */
const known = ({ sequence, produced }: Running): number => sequence.promptTokens + produced

/** Tokens that its answer still has to get. */
const lacking = ({ sequence, produced }: Running): number => sequence.outputTokens - produced

/** Its next step makes a token from the last one alone. */
const decoding = (running: Running): boolean =>
  (running.produced > 0 || running.sequence.computedTokens !== undefined) &&
  known(running) - running.cached === 1

const finalBlocks = ({ sequence }: Running): number =>
  Math.ceil((sequence.promptTokens + sequence.outputTokens) / blockTokens)
