/** Latencies of one server at a few sizes: each alone under way, and one of them in two processes at once. */
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
  readonly onPoint: (point: ServerCalibration['points'][number]) => void
}

/** Of a size: warm-up and measurement, seconds. */
const warmUpS = 0.4
const windowS = 1.2
/** Requests of one size; the load goes through them. */
const bodies = 4

/**
 * Ends at the first size that the server refuses: what it said is in `refused`.
 * @throws ProtocolError, PayloadError for a server that cannot be asked at all; the signal's reason
 */
export async function measureSizes(
  { target, usage }: Pick<Predictor, 'target' | 'usage'>,
  { protocol, model, payload, batches, processes, onPoint }: Sizes,
  signal: AbortSignal,
): Promise<Pick<ServerCalibration, 'points' | 'memory'> & { readonly refused?: number }> {
  if (target.kind !== 'http') throw new TypeError('not a server that listens')
  const points: ServerCalibration['points'][number][] = []
  const memory: { batch: number; gpuMemoryMiB: number }[] = []
  const generator = new HttpLoadGenerator()
  const measure = async (batch: number, inFlight: number): Promise<boolean> => {
    const asked = await protocol.prepare(target.url, model, withItems(payload, batch), signal)
    const play = (durationS: number) =>
      generator.play({ ...asked, serverPids: target.serverPids }, { kind: 'closed', connections: inFlight, durationS }, signal)
    await play(warmUpS)
    const { latencyMs } = await play(windowS)
    const good = latencyMs.filter((ms) => Number.isFinite(ms)).sort()
    if (good.length === 0 || good.length < latencyMs.length / 2) return false
    const point = { batch, latencyMs: good[good.length >> 1]!, processes: inFlight }
    points.push(point)
    onPoint(point)
    return true
  }
  try {
    for (const batch of batches) {
      const served = await measure(batch, 1).catch((error: unknown) => {
        // The first size is an ordinary request: what is wrong with it is wrong with the server.
        if (batch === batches[0] || signal.aborted) throw error
        return false
      })
      if (!served) return { points, memory, refused: batch }
      const { gpuMemoryMiB } = await usage()
      if (gpuMemoryMiB !== undefined) memory.push({ batch, gpuMemoryMiB: gpuMemoryMiB / processes })
    }
    if (processes > 1) await measure(batches[Math.min(2, batches.length - 1)]!, 2)
    return { points, memory }
  } finally {
    await generator.close()
  }
}

const withItems = (payload: PayloadSource, items: number): PayloadSource =>
  payload.kind === 'file' ? payload : { ...payload, ...('count' in payload && { count: bodies }), items: { kind: 'fixed', items } }
