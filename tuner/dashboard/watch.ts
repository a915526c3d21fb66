/** Follows a store that other processes write to: asks twice a second whether anything was committed, and passes on what is new. */
import { type DashboardExperiment, type ExperimentEntry, packTrial } from '../../reports/dashboard/data.ts'
import type { StoreReader } from '../../trials/store/index.ts'
import type { ExperimentRecord, FinishedTrial } from '../../trials/types.ts'
import type { Surroundings } from '../experiment/context.ts'
import { type Described, describeExperiment } from './described.ts'

const pollMs = 500
/** Trials read and passed on at once: enough to be quick, few enough to show something early. */
const batch = 500

export interface Follower {
  experiment(experiment: DashboardExperiment): void
  /** Packed trials that stand from `index` on in the order of arrival. May wait until the reader can take more. */
  trials(packed: readonly string[], index: number): void
  ready(): void
  problem(error: Error): void
}

/** Everything known of one experiment, in the order in which it was seen. */
interface Feed {
  readonly id: string
  readonly followers: Set<Follower>
  readonly trials: FinishedTrial[]
  readonly packed: string[]
  readonly seen: Set<number>
  /** All trials up to this number are known. */
  complete: number
  record?: ExperimentRecord
  described?: Described
  caughtUp: boolean
}

export class StoreWatcher {
  readonly #feeds = new Map<string, Feed>()
  #version = -1
  #turn: Promise<void> = Promise.resolve()
  #timer?: ReturnType<typeof setInterval>

  constructor(
    readonly reader: StoreReader,
    readonly around: Surroundings,
  ) {}

  /** Newest last. */
  async list(): Promise<ExperimentEntry[]> {
    const all = await this.reader.list()
    return all.map(({ id, name, createdAt, state, provenance, trials }) => ({ id, name, createdAt, state, provenance, trials }))
  }

  /** Experiment and trials as of now; undefined for an unknown experiment. @throws as describeExperiment does. */
  async snapshot(id: string): Promise<{ described: Described; trials: readonly FinishedTrial[]; packed: readonly string[] } | undefined> {
    const feed = this.#feed(id)
    await this.#take(() => this.#update(feed))
    if (!feed.record) {
      this.#feeds.delete(id)
      return undefined
    }
    feed.described ??= await describeExperiment(feed.record, this.around)
    return { described: feed.described, trials: feed.trials, packed: feed.packed }
  }

  /** Tells a follower what is there, from the `from`-th trial on, and then what is new. Returns what ends it. */
  follow(id: string, from: number, follower: Follower): () => void {
    const feed = this.#feed(id)
    this.#take(async () => {
      // What is known already is told at once; what is not is read below and told to every follower, this one among them.
      if (feed.described) follower.experiment(feed.described.dashboard)
      for (let i = from; i < feed.packed.length; i += batch) follower.trials(feed.packed.slice(i, i + batch), i)
      feed.followers.add(follower)
      await this.#update(feed)
      if (!feed.record) throw new Error(`there is no experiment ${id} in the store`)
      follower.ready()
    }).catch((error: Error) => {
      feed.followers.delete(follower)
      follower.problem(error)
    })
    this.#timer ??= setInterval(() => this.#poll(), pollMs)
    return () => {
      feed.followers.delete(follower)
      if (feed.followers.size === 0 && [...this.#feeds.values()].every((f) => f.followers.size === 0)) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#turn
    await this.reader.close()
  }

  #feed(id: string): Feed {
    const known = this.#feeds.get(id)
    if (known) return known
    const feed: Feed = { id, followers: new Set(), trials: [], packed: [], seen: new Set(), complete: 0, caughtUp: false }
    this.#feeds.set(id, feed)
    return feed
  }

  /** One look at the store at a time. */
  #take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work)
    this.#turn = turn.then(
      () => undefined,
      () => undefined, // the caller of `turn` gets the error
    )
    return turn
  }

  #polling = false
  #poll(): void {
    if (this.#polling) return
    this.#polling = true
    this.#take(async () => {
      const version = await this.reader.version()
      const changed = version !== this.#version
      this.#version = version
      for (const feed of this.#feeds.values()) {
        if (feed.followers.size === 0) continue
        // A process that dies commits nothing: a running experiment is looked at every time.
        if (changed || feed.record?.state === 'running') await this.#update(feed)
      }
    })
      .catch((error: Error) => {
        for (const feed of this.#feeds.values()) for (const follower of feed.followers) follower.problem(error)
      })
      .finally(() => {
        this.#polling = false
      })
  }

  /** Reads what is new of an experiment and tells its followers. */
  async #update(feed: Feed): Promise<void> {
    const record = await this.reader.experiment(feed.id)
    if (!record) return
    const changed = !feed.record || feed.record.state !== record.state || JSON.stringify(feed.record.spec) !== JSON.stringify(record.spec)
    if (changed || !feed.described) {
      feed.record = record
      feed.described = await describeExperiment(record, this.around)
      for (const follower of feed.followers) follower.experiment(feed.described.dashboard)
    }
    const numbers = (await this.reader.numbers(feed.id, feed.complete)).filter((n) => !feed.seen.has(n))
    for (let i = 0; i < numbers.length; i += batch) {
      const wanted = numbers.slice(i, i + batch)
      const read = await this.reader.trials(feed.id, wanted[0]!, wanted.at(-1)!)
      const news = read.filter((t) => !feed.seen.has(t.number))
      const index = feed.packed.length
      const packed = news.map(packTrial)
      feed.trials.push(...news)
      feed.packed.push(...packed)
      for (const { number } of news) feed.seen.add(number)
      for (const follower of feed.followers) follower.trials(packed, index)
    }
    while (feed.seen.has(feed.complete + 1)) feed.complete += 1
  }
}
