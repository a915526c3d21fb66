/** Caveats on a capacity from the host, the generator and the connections. */
import { availableParallelism, loadavg } from 'node:os'
import type { Target } from '../model/target.ts'
import { parseServerAddress } from '../server-address.ts'
import type { LoadRecord } from './load-record.ts'

/** Load average per core beyond which other work contends for the CPU. Assumed. */
const maxLoadPerCore = 1.5

/** Cores from which the generator's own use of the machine is reported. Assumed. */
const minReportedCores = 0.02

/** Share of requests with a closed connection from which it is reported. Assumed. */
const minReportedClosingShare = 0.05

/**
 * Range of the unloaded latency, ms, that suggests Linux's delayed acknowledgement of 40 ms: that
 * time, and a little service. Assumed.
 */
const delayedAckMs = [39.5, 45] as const
/** Largest ratio of p90 to p50 for that: delayed answers all take the same time. Assumed. */
const maxDelayedAckSpread = 1.15

/**
 * Describes where delayed TCP acknowledgements explain the unloaded latency: the server sends the
 * head of an answer, and Nagle's algorithm delays its body until the client acknowledges.
 */
function describeDelayedAck({ points }: LoadRecord): string[] {
  const unloaded = points.find(
    ({ load, stream }) => load.kind === 'closed' && load.connections === 1 && !stream,
  )
  const [min, max] = delayedAckMs
  const isDelayed =
    unloaded !== undefined &&
    unloaded.p50Ms >= min &&
    unloaded.p50Ms <= max &&
    unloaded.p90Ms <= maxDelayedAckSpread * unloaded.p50Ms
  if (!isDelayed) return []
  return [
    `the unloaded latency of ${unloaded.p50Ms.toFixed(0)} ms may be delayed TCP acknowledgements (40 ms) instead of work: set TCP_NODELAY in the server, or send head and body of an answer together`,
  ]
}

/** Collects the caveats on a measurement; none for a server in virtual time. */
export function collectCaveats(target: Target, session: LoadRecord): string[] {
  if (target.kind === 'virtual') return []
  const caveats = [...(target.remarks ?? [])]
  const { host } = parseServerAddress(target.url)!
  if (/^(localhost|127\.|\[?::1)/.test(host) && session.generatorCores > minReportedCores) {
    const cores = availableParallelism()
    caveats.push(
      `the load generator shared this machine's ${cores} cores with the server and used up to ${session.generatorCores.toFixed(2)} of one`,
    )
    const [load = 0] = loadavg()
    if (load > maxLoadPerCore * cores)
      caveats.push(`CPU contention: load average ${load.toFixed(1)} on ${cores} cores`)
  }
  if (session.closedConnections > minReportedClosingShare * session.requests)
    caveats.push(
      `the server closed ${session.closedConnections} connections in ${session.requests} requests, and reconnecting is part of the latency: enable keep-alive (gunicorn: gthread workers)`,
    )
  caveats.push(...describeDelayedAck(session))
  const streams = session.points.flatMap(({ stream }) => stream ?? [])
  const answers = streams.reduce((sum, { e2e }) => sum + e2e.requests, 0)
  const unobservable = answers - streams.reduce((sum, { tpot }) => sum + tpot.requests, 0)
  if (unobservable > 0)
    caveats.push(
      `${unobservable} of ${answers} streamed answers came in one piece: their time per output token (TPOT) is not observable; does the server, or a gateway before it, collect the answer before it sends it?`,
    )
  if (session.points.some((point) => point.generatorSaturated))
    caveats.push('the load generator could not sustain some of the load points; they are marked')
  return caveats
}
