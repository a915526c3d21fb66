/** Follows a store that other processes write to: polls for commits, and reports new data. */
import {
  type ExperimentEntry,
  type ExperimentOutcome,
  packTrial,
  type SentAnnotations,
} from '../../reports/dashboard/data/page-data.ts'
import type { StoreReader } from '../../trials/store/index.ts'
import type { ExperimentRecord, FinishedTrial } from '../../trials/types.ts'
import type { HostContext } from '../config/context.ts'
import { UserError } from '../exit-codes.ts'
import { formatOutcome, formatOutcomeSlo, resolveOutcome } from '../loop/outcome.ts'
import { createExperimentView, type ExperimentView } from './experiment-view.ts'

/** Interval of polls for commits, ms: short enough that updates seem immediate. Assumed. */
const pollMs = 500
/** Trials per read: few enough to show the first ones early. */
const maxTrialsPerRead = 500

/** Everything read of one experiment, in the order of reading. */
export interface Feed {
  readonly id: string
  readonly view?: ExperimentView
  readonly trials: readonly FinishedTrial[]
  /** The same trials, packed for the page. */
  readonly packed: readonly string[]
  readonly annotations: SentAnnotations
  /** Everything that the store contained at the first read has been read. */
  readonly caughtUp: boolean
  /** Why the experiment cannot be shown: unknown, of another version, unreadable. */
  readonly problem?: Error
}

/** Initial annotations of a feed; compared by identity. */
export const noAnnotations: SentAnnotations = []

interface MutableFeed extends Feed {
  record?: ExperimentRecord
  view?: ExperimentView
  readonly trials: FinishedTrial[]
  readonly packed: string[]
  annotations: SentAnnotations
  caughtUp: boolean
  problem?: Error
  /** Numbers of the trials that have been read. */
  readonly readNumbers: Set<number>
  /** All trials up to this number have been read. */
  lastContiguousTrial: number
  readonly listeners: Set<() => void>
}

export class StoreWatcher {
  readonly #feeds = new Map<string, MutableFeed>()
  #version = -1
  #queue: Promise<void> = Promise.resolve()
  #timer?: ReturnType<typeof setInterval>
  #polling = false
  #closed = false

  constructor(
    readonly reader: StoreReader,
    readonly host: HostContext,
  ) {}

  /** Lists all experiments, the newest last. */
  async list(): Promise<ExperimentEntry[]> {
    const experiments = await this.reader.list()
    return experiments.map(({ id, name, createdAt, state, provenance, trials, annotation }) => ({
      ...{ id, name, createdAt, state, provenance, trials },
      ...(annotation && { annotation }),
    }))
  }

  readonly #outcomes = new Map<
    string,
    { readonly asOf: string; readonly outcome: ExperimentOutcome }
  >()

  /** Outcomes of all experiments; unchanged ones are cached. */
  async listOutcomes(): Promise<ExperimentOutcome[]> {
    const outcomes: ExperimentOutcome[] = []
    for (const record of await this.reader.list()) {
      const { id, state, trials } = record
      const asOf = `${state} ${trials}`
      const cached = this.#outcomes.get(id)
      if (cached?.asOf !== asOf) {
        const outcome = await resolveOutcome(this.reader, record)
        this.#outcomes.set(id, {
          asOf,
          outcome: { id, slo: formatOutcomeSlo(outcome), text: formatOutcome(outcome) },
        })
      }
      outcomes.push(this.#outcomes.get(id)!.outcome)
    }
    return outcomes
  }

  /**
   * Current experiment and trials.
   * @throws the problem of the experiment
   */
  async readCurrent(id: string): Promise<Feed & { readonly view: ExperimentView }> {
    const feed = this.#feed(id)
    await this.#enqueue(() => this.#update(feed))
    const { view, problem } = feed
    if (feed.listeners.size === 0 && !view) this.#feeds.delete(id)
    if (!view) throw problem ?? new Error(`experiment ${id} could not be read`)
    return { ...feed, view }
  }

  /** Follows an experiment: `changed` is called after each update until `stop`. */
  follow(id: string, changed: () => void): { readonly feed: Feed; stop(): void } {
    const feed = this.#feed(id)
    feed.listeners.add(changed)
    void this.#enqueue(() => this.#update(feed))
    this.#timer ??= setInterval(() => this.#poll(), pollMs)
    const stop = () => {
      feed.listeners.delete(changed)
      if (feed.listeners.size === 0 && !feed.view) this.#feeds.delete(id)
      if ([...this.#feeds.values()].some((f) => f.listeners.size > 0)) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    return { feed, stop }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#closed = true
    await this.#queue
    await this.reader.close()
  }

  #feed(id: string): MutableFeed {
    const existing = this.#feeds.get(id)
    if (existing) return existing
    const feed = {
      id,
      listeners: new Set<() => void>(),
      trials: [],
      packed: [],
      annotations: noAnnotations,
      readNumbers: new Set<number>(),
      lastContiguousTrial: 0,
      caughtUp: false,
    }
    this.#feeds.set(id, feed)
    return feed
  }

  /** Serialises reads of the store. */
  #enqueue(work: () => Promise<void>): Promise<void> {
    this.#queue = this.#queue.then(() => (this.#closed ? undefined : work()))
    return this.#queue
  }

  #poll(): void {
    if (this.#polling) return
    this.#polling = true
    void this.#enqueue(async () => {
      const followed = [...this.#feeds.values()].filter((feed) => feed.listeners.size > 0)
      // A failure is reported by the reads below, feed by feed.
      const version = await this.reader.version().catch(() => Number.NaN)
      const changed = version !== this.#version
      this.#version = version
      for (const feed of followed) {
        // A process that dies commits nothing, so running experiments are checked every time.
        if (changed || feed.view?.dashboard.state === 'running') await this.#update(feed)
      }
      this.#polling = false
    })
  }

  /** Reads new data of an experiment, and notifies the listeners. The feed stores problems. */
  async #update(feed: MutableFeed): Promise<void> {
    const notifyListeners = () => {
      for (const listener of feed.listeners) listener()
    }
    try {
      const record = await this.reader.experiment(feed.id)
      if (!record) feed.view = undefined
      if (!record)
        throw new UserError(
          `there is no experiment ${feed.id} in the store`,
          '`tune list` lists all experiments',
        )
      if (
        feed.record?.state !== record.state ||
        JSON.stringify(feed.record.spec) !== JSON.stringify(record.spec)
      ) {
        feed.view = await createExperimentView(record, this.host)
        feed.record = record
        notifyListeners()
      }
      const annotations = [...((await this.reader.annotations(feed.id)).get(feed.id) ?? [])]
      if (JSON.stringify(annotations) !== JSON.stringify(feed.annotations)) {
        feed.annotations = annotations
        notifyListeners()
      }
      const numbers = (await this.reader.numbers(feed.id, feed.lastContiguousTrial)).filter(
        (n) => !feed.readNumbers.has(n),
      )
      for (let i = 0; i < numbers.length && !this.#closed; i += maxTrialsPerRead) {
        const batch = numbers.slice(i, i + maxTrialsPerRead)
        for (const trial of await this.reader.trials(feed.id, batch[0]!, batch.at(-1)!)) {
          if (feed.readNumbers.has(trial.number)) continue
          feed.readNumbers.add(trial.number)
          feed.trials.push(trial)
          feed.packed.push(packTrial(trial))
        }
        notifyListeners()
      }
      while (feed.readNumbers.has(feed.lastContiguousTrial + 1)) feed.lastContiguousTrial += 1
      feed.problem = undefined
      if (!feed.caughtUp) {
        feed.caughtUp = true
        notifyListeners()
      }
    } catch (error) {
      feed.problem = error instanceof Error ? error : new Error(String(error))
      notifyListeners()
    }
  }
}
