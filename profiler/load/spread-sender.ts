import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'
import type {
  ConnectionCounts,
  OnRequestEnd,
  RequestHandle,
  Sender,
  StreamActivity,
} from './sender.ts'

/** Spreads the load over several servers by weight, each with its own connections. */
export class SpreadSender implements Sender {
  private readonly nextIndex: () => number
  private constructor(
    private readonly senders: readonly Sender[],
    weights: readonly number[],
  ) {
    this.nextIndex = createWeightedRoundRobin(weights)
  }

  /** @param createSender creates a sender to one server */
  static async create(
    target: HttpTarget,
    createSender: (server: HttpTarget) => Promise<Sender>,
  ): Promise<SpreadSender> {
    const { replicas = [], ...common } = target
    const senders = await Promise.all(
      replicas.map(({ url, path, headers }) => createSender({ ...common, url, path, headers })),
    )
    return new SpreadSender(
      senders,
      replicas.map(({ weight }) => weight),
    )
  }

  get counts(): ConnectionCounts | undefined {
    const countsBySender = this.senders.flatMap(({ counts }) => counts ?? [])
    const sum = (name: keyof ConnectionCounts) =>
      countsBySender.reduce((total, counts) => total + counts[name], 0)
    return countsBySender.length < this.senders.length
      ? undefined
      : { opened: sum('opened'), closed: sum('closed'), retried: sum('retried') }
  }

  get activity(): StreamActivity | undefined {
    const all = this.senders.flatMap(({ activity }) => activity ?? [])
    if (all.length === 0) return undefined
    const max = (name: keyof StreamActivity) => Math.max(...all.map((activity) => activity[name]))
    return { lastByteMs: max('lastByteMs'), longestGapMs: max('longestGapMs') }
  }

  async connect(): Promise<void> {
    await Promise.all(this.senders.map((sender) => sender.connect()))
  }

  send(index: number, onEnd: OnRequestEnd): RequestHandle {
    return this.senders[this.nextIndex()]!.send(index, onEnd)
  }

  takeSamples(): NonNullable<LoadRun['answerSamples']> {
    return this.senders.flatMap((sender) => sender.takeSamples())
  }

  async close(): Promise<void> {
    await Promise.all(this.senders.map((sender) => sender.close()))
  }
}

/**
 * Selects among weighted servers as evenly as possible (smooth weighted round robin, as in nginx).
 * @param weights above 0
 * @returns a function that returns the next index
 */
export function createWeightedRoundRobin(weights: readonly number[]): () => number {
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  /** Requests that each server is short of its share, in units of the total weight. */
  const deficits = weights.map(() => 0)
  return () => {
    let chosenIndex = 0
    for (let i = 0; i < deficits.length; i++) {
      deficits[i] = deficits[i]! + weights[i]!
      if (deficits[i]! > deficits[chosenIndex]!) chosenIndex = i
    }
    deficits[chosenIndex] = deficits[chosenIndex]! - total
    return chosenIndex
  }
}
