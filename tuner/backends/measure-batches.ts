/**
 * Measures the latency of one server at a few batch sizes, one request at a time, and of one size
 * with two concurrent requests.
 */
import { median } from 'simple-statistics'
import { HttpLoadGenerator, type PayloadSource, type Protocol } from '../../profiler/index.ts'
import type { ServerCalibration } from '../../trials/devices/server-calibration.ts'
import type { Predictor } from '../../trials/types.ts'

interface BatchOptions {
  readonly protocol: Protocol
  readonly model: string
  /** Source of the items of a request. */
  readonly payload: PayloadSource
  /** Items per request, ascending. */
  readonly batches: readonly number[]
  /**
   * Processes of the server; with two or more, one size is also measured with two concurrent
   * requests.
   */
  readonly processes: number
  /** Called with each measured point. */
  readonly onPoint: (reading: ServerCalibration['points'][number]) => void
}

/** Warm-up and measurement of one size in one round, seconds. */
const warmUpS = 0.2
const windowS = 0.6
/**
 * Rounds are steady if they differ by at most this share. A server that keeps getting faster is
 * measured in at most `maxRounds`.
 */
const settledTolerance = 0.05
const maxRounds = 5
/** Number of different requests of one size. */
const bodyCount = 4

/**
 * Measures the sizes in rounds, so that all are equally warm; the last two rounds count. Stops at
 * the first rejected size (`refused`). `faster` is the speed-up of the last round, if the server
 * was not steady yet.
 * @throws ProtocolError, PayloadError if the first size fails; the signal's reason
 */
export async function measureBatches(
  { target, usage }: Pick<Predictor, 'target' | 'usage'>,
  { protocol, model, payload, batches, processes, onPoint }: BatchOptions,
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
   * Runs a closed loop after a warm-up.
   * @returns the latencies of successful requests, and the number of all requests
   */
  const runClosedLoop = async (
    items: number,
    connections: number,
    warmS: number,
    durationS: number,
  ) => {
    const batchTarget = await protocol.prepare(target.url, model, addItems(payload, items), signal)
    const play = (forS: number) =>
      generator.play(
        { ...batchTarget, serverPids: target.serverPids },
        { kind: 'closed', connections, durationS: forS },
        signal,
      )
    await play(warmS)
    const { latencyMs, elapsedS } = await play(durationS)
    return {
      successfulMs: [...latencyMs].filter((ms) => Number.isFinite(ms)),
      requestCount: latencyMs.length,
      elapsedS,
    }
  }
  const measure = async (batch: number, inFlight: number): Promise<number[] | undefined> => {
    const { successfulMs, requestCount } = await runClosedLoop(batch, inFlight, warmUpS, windowS)
    if (successfulMs.length === 0 || successfulMs.length < requestCount / 2) return undefined
    onPoint({ batch, latencyMs: median(successfulMs), processes: inFlight })
    return successfulMs
  }
  const latenciesBySize = new Map<number, number[][]>()
  let refused: number | undefined
  /** Measures each size once. Returns false if a size was rejected. */
  const measureRound = async (sizes: readonly number[]): Promise<boolean> => {
    for (const batch of sizes) {
      const latencies = await measure(batch, 1).catch((error: unknown) => {
        // The first size is an ordinary request: if it fails, the server is at fault.
        if (batch === batches[0] || signal.aborted) throw error
        return undefined
      })
      if (latencies === undefined) {
        refused = batch
        return false
      }
      const before = latenciesBySize.get(batch)
      latenciesBySize.set(batch, [...(before ?? []), latencies])
      if (before !== undefined) continue
      const { gpuMemoryMiB } = await usage()
      if (gpuMemoryMiB !== undefined) memory.push({ batch, gpuMemoryMiB: gpuMemoryMiB / processes })
    }
    return true
  }
  /**
   * Measures the throughput of single-item requests, as many at a time as the largest size has
   * items.
   */
  const measureSaturation = async (
    connections: number,
  ): Promise<ServerCalibration['saturation']> => {
    const { successfulMs, requestCount, elapsedS } = await runClosedLoop(
      1,
      connections,
      windowS,
      2 * windowS,
    )
    return successfulMs.length < 0.9 * requestCount
      ? undefined
      : { connections, rps: successfulMs.length / elapsedS }
  }
  /** Computes the largest relative speed-up of a size between the last two rounds. */
  const computeSpeedUp = () =>
    Math.max(
      ...[...latenciesBySize.values()].map(
        (rounds) => median(rounds.at(-2)!) / median(rounds.at(-1)!) - 1,
      ),
    )
  try {
    await measureRound(batches)
    let faster = 0
    for (
      let n = 1;
      n < maxRounds && latenciesBySize.size > 0 && (n === 1 || faster > settledTolerance);
      n++
    ) {
      if (!(await measureRound([...latenciesBySize.keys()]))) break
      faster = computeSpeedUp()
    }
    const points = [...latenciesBySize].map(([batch, rounds]) => ({
      batch,
      latencyMs: median(rounds.slice(-2).flat()),
      processes: 1,
    }))
    const concurrentBatch = processes > 1 ? batches[Math.min(2, batches.length - 1)]! : undefined
    const concurrentMs =
      concurrentBatch === undefined ? undefined : await measure(concurrentBatch, 2)
    if (concurrentMs !== undefined)
      points.push({ batch: concurrentBatch!, latencyMs: median(concurrentMs), processes: 2 })
    const saturation =
      latenciesBySize.size > 0 ? await measureSaturation(batches.at(-1)!) : undefined
    return {
      points,
      memory,
      ...(saturation && { saturation }),
      ...(refused !== undefined && { refused }),
      ...(faster > settledTolerance && { faster }),
    }
  } finally {
    await generator.close()
  }
}

const addItems = (payload: PayloadSource, items: number): PayloadSource =>
  payload.kind === 'file'
    ? payload
    : {
        ...payload,
        ...('count' in payload && { count: bodyCount }),
        items: { kind: 'fixed', items },
      }
