/**
 * Latencies of one server at a few sizes: each alone under way, and one of them in two processes at
 * once.
 */
import { median } from 'simple-statistics'
import { HttpLoadGenerator, type PayloadSource, type Protocol } from '../../profiler/index.ts'
import type { ServerCalibration } from '../../trials/devices/server-calibration.ts'
import type { Predictor } from '../../trials/types.ts'

interface Sizes {
  readonly protocol: Protocol
  readonly model: string
  /** What requests are made of, item by item. */
  readonly payload: PayloadSource
  /** Ascending. */
  readonly batches: readonly number[]
  /** Of the server; from two on, one size is measured in two at once. */
  readonly processes: number
  /** Each reading as it comes. */
  readonly onReading: (reading: ServerCalibration['points'][number]) => void
}

/** Of a size in one round: warm-up and measurement, seconds. */
const warmUpS = 0.2
const windowS = 0.6
/**
 * A size has settled where a round differs from the one before by no more than this part; a server
 * that goes on getting faster ends after so many rounds.
 */
const settledWithin = 0.05
const mostRounds = 5
/** Requests of one size; the load goes through them. */
const bodies = 4

/**
 * Sizes are measured in rounds, so that none is read colder than another; of a size the last two
 * rounds count. Ends at the first size that the server refuses: what it said is in `refused`. A
 * server that has not settled is in `faster`: by which part it was still faster than in the round
 * before.
 * @throws ProtocolError, PayloadError for a server that cannot be asked at all; the signal's reason
 */
export async function measureSizes(
  { target, usage }: Pick<Predictor, 'target' | 'usage'>,
  { protocol, model, payload, batches, processes, onReading }: Sizes,
  signal: AbortSignal,
): Promise<
  Pick<ServerCalibration, 'points' | 'memory' | 'saturation'> & {
    readonly refused?: number
    readonly faster?: number
  }
> {
  if (target.kind !== 'http') throw new TypeError('not a server that listens')
  const memory: { batch: number; gpuMemoryMiB: number }[] = []
  const generator = new HttpLoadGenerator()
  /**
   * Requests of so many items, so many at once, after a warm-up: the latencies of those that were
   * answered, of how many.
   */
  const loop = async (items: number, connections: number, warmS: number, durationS: number) => {
    const asked = await protocol.prepare(target.url, model, withItems(payload, items), signal)
    const play = (forS: number) =>
      generator.play(
        { ...asked, serverPids: target.serverPids },
        { kind: 'closed', connections, durationS: forS },
        signal,
      )
    await play(warmS)
    const { latencyMs, elapsedS } = await play(durationS)
    return {
      good: [...latencyMs].filter((ms) => Number.isFinite(ms)),
      asked: latencyMs.length,
      elapsedS,
    }
  }
  const measure = async (batch: number, inFlight: number): Promise<number[] | undefined> => {
    const { good, asked } = await loop(batch, inFlight, warmUpS, windowS)
    if (good.length === 0 || good.length < asked / 2) return undefined
    onReading({ batch, latencyMs: median(good), processes: inFlight })
    return good
  }
  const served = new Map<number, number[][]>()
  let refused: number | undefined
  /** False where one of the sizes was not served. */
  const round = async (sizes: readonly number[]): Promise<boolean> => {
    for (const batch of sizes) {
      const latencies = await measure(batch, 1).catch((error: unknown) => {
        // The first size is an ordinary request: what is wrong with it is wrong with the server.
        if (batch === batches[0] || signal.aborted) throw error
        return undefined
      })
      if (latencies === undefined) {
        refused = batch
        return false
      }
      const before = served.get(batch)
      served.set(batch, [...(before ?? []), latencies])
      if (before !== undefined) continue
      const { gpuMemoryMiB } = await usage()
      if (gpuMemoryMiB !== undefined) memory.push({ batch, gpuMemoryMiB: gpuMemoryMiB / processes })
    }
    return true
  }
  /** Requests of one item, as many at once as the largest size has items. */
  const saturated = async (connections: number): Promise<ServerCalibration['saturation']> => {
    const { good, asked, elapsedS } = await loop(1, connections, windowS, 2 * windowS)
    return good.length < 0.9 * asked ? undefined : { connections, rps: good.length / elapsedS }
  }
  /** By which part the size that moved most was slower in the round before. */
  const moved = () =>
    Math.max(
      ...[...served.values()].map((rounds) => median(rounds.at(-2)!) / median(rounds.at(-1)!) - 1),
    )
  try {
    await round(batches)
    let faster = 0
    for (let n = 1; n < mostRounds && served.size > 0 && (n === 1 || faster > settledWithin); n++) {
      if (!(await round([...served.keys()]))) break
      faster = moved()
    }
    const points = [...served].map(([batch, rounds]) => ({
      batch,
      latencyMs: median(rounds.slice(-2).flat()),
      processes: 1,
    }))
    const shared = processes > 1 ? batches[Math.min(2, batches.length - 1)]! : undefined
    const together = shared === undefined ? undefined : await measure(shared, 2)
    if (together !== undefined)
      points.push({ batch: shared!, latencyMs: median(together), processes: 2 })
    const saturation = served.size > 0 ? await saturated(batches.at(-1)!) : undefined
    return {
      points,
      memory,
      ...(saturation && { saturation }),
      ...(refused !== undefined && { refused }),
      ...(faster > settledWithin && { faster }),
    }
  } finally {
    await generator.close()
  }
}

const withItems = (payload: PayloadSource, items: number): PayloadSource =>
  payload.kind === 'file'
    ? payload
    : { ...payload, ...('count' in payload && { count: bodies }), items: { kind: 'fixed', items } }
