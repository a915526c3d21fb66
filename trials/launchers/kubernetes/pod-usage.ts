/** CPU time and memory of a pod's container, as its node's kubelet or a metrics server tells. */
import type { Usage } from '../../types.ts'
import { type Api, ApiError } from './api.ts'
import { quantity } from './failures.ts'

/**
 * kubelet: counters of the node, through the API server. metrics-server: averages of
 * metrics.k8s.io, every 15 s or so.
 */
export type UsageSource = 'kubelet' | 'metrics-server'

/**
 * Where usage can be read: of the node itself where that is allowed, for its counters are exact;
 * else of a metrics server. Undefined: nowhere.
 * @throws ApiError where the server does not answer
 */
export async function usageSourceOf(api: Api): Promise<UsageSource | undefined> {
  const spec = { resourceAttributes: { verb: 'get', resource: 'nodes', subresource: 'proxy' } }
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec }
  const review = api.request<{ status?: { allowed?: boolean } }>(
    'POST',
    '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    { body },
  )
  if ((await present(review))?.status?.allowed) return 'kubelet'
  return (await present(api.request('GET', '/apis/metrics.k8s.io/v1beta1', { once: true })))
    ? 'metrics-server'
    : undefined
}

const present = <T>(asked: Promise<T>): Promise<T | undefined> =>
  asked.catch((error: unknown) => {
    // Not served, not allowed, or its server is away: then it is not to be counted on.
    if (error instanceof ApiError && error.status >= 400) return undefined
    throw error
  })

export interface PodPlace {
  readonly name: string
  readonly node: string
  readonly container: string
}

/** What was used up to, or around, a moment of the cluster's own clock. */
interface Reading {
  readonly atMs: number
  readonly memoryMiB?: number
  /** CPU time since the container's start, s. */
  readonly cpuSeconds?: number
  /** Mean cores over the time before `atMs`. */
  readonly mean?: { readonly cores: number; readonly overMs: number }
}

type PodUsage = Pick<Usage, 'cpuCores' | 'busiestCpuCores' | 'peakRssMiB'>

interface PodUsageSampler {
  /** Looks once more and sums up. */
  read(): Promise<PodUsage>
  /** What was used up to now is left out: the load begins. */
  restart(): void
  stop(): void
}

/** Looks once. Rejects, or says nothing, when there is nothing to see just now. */
type UsageLook = (signal: AbortSignal) => Promise<Reading | undefined>

const everyMs = 5_000
/** Shorter than this a rate says more of the counter's grain than of the predictor. */
const leastIntervalMs = 900

/** Samples a container's usage from now on. @param nowMs by the clock of the readings */
export function samplePodUsage(look: UsageLook, nowMs: () => number): PodUsageSampler {
  const readings: Reading[] = []
  const end = new AbortController()
  let sinceMs = nowMs()
  const sample = async () => {
    // A reading that fails is a reading less.
    const reading = await look(end.signal).catch(() => undefined)
    if (reading && reading.atMs !== readings.at(-1)?.atMs) readings.push(reading)
  }
  const timer = setInterval(sample, everyMs)
  timer.unref()
  let first = sample()
  return {
    read: async () => {
      await first
      await sample()
      return usageOf(readings, sinceMs)
    },
    restart: () => {
      sinceMs = nowMs()
      first = sample()
    },
    stop: () => {
      clearInterval(timer)
      end.abort(new Error('stopped'))
    },
  }
}

/**
 * Means and peaks of readings in their order. CPU counts from `sinceMs` on: of counters what lies
 * between two readings, of averages those whose time lies wholly behind it. What they do not tell
 * stays undefined.
 */
export function usageOf(readings: readonly Reading[], sinceMs: number): PodUsage {
  const counted = readings.filter(
    (reading): reading is Reading & { cpuSeconds: number } =>
      reading.cpuSeconds !== undefined && reading.atMs >= sinceMs,
  )
  const rate = (
    from: { cpuSeconds: number; atMs: number },
    to: { cpuSeconds: number; atMs: number },
  ) => ((to.cpuSeconds - from.cpuSeconds) * 1000) / (to.atMs - from.atMs)
  const rates: number[] = []
  let before = counted[0]
  for (const reading of counted.slice(1)) {
    if (before === undefined || reading.atMs - before.atMs < leastIntervalMs) continue
    rates.push(rate(before, reading))
    before = reading
  }
  const means = readings.flatMap(({ atMs, mean }) =>
    mean && atMs - mean.overMs >= sinceMs ? [mean] : [],
  )
  const overMs = means.reduce((sum, mean) => sum + mean.overMs, 0)
  const averaged =
    means.length > 0
      ? means.reduce((sum, mean) => sum + mean.cores * mean.overMs, 0) / overMs
      : undefined
  const memory = readings.flatMap(({ memoryMiB }) => memoryMiB ?? [])
  const busiest = [...rates, ...means.map(({ cores }) => cores)]
  return {
    cpuCores: rates.length > 0 ? rate(counted[0]!, before!) : averaged,
    busiestCpuCores: busiest.length > 0 ? Math.max(...busiest) : undefined,
    peakRssMiB: memory.length > 0 ? Math.max(...memory) : undefined,
  }
}

interface Summary {
  readonly pods?: readonly {
    readonly podRef: { readonly name: string; readonly namespace: string }
    readonly containers?: readonly {
      readonly name: string
      readonly cpu?: { readonly time: string; readonly usageCoreNanoSeconds?: number }
      readonly memory?: { readonly rssBytes?: number; readonly workingSetBytes?: number }
    }[]
  }[]
}

/** The kubelet's counters; it renews them every 10 to 15 s. */
export const kubeletLook =
  (api: Api, { name, node, container }: PodPlace): UsageLook =>
  async (signal) => {
    const path = `/api/v1/nodes/${node}/proxy/stats/summary`
    const { pods = [] } = await api.request<Summary>('GET', path, {
      query: { only_cpu_and_memory: true },
      once: true,
      signal,
    })
    const pod = pods.find(
      ({ podRef }) => podRef.name === name && podRef.namespace === api.namespace,
    )
    const found = pod?.containers?.find((one) => one.name === container)
    if (!found?.cpu) return undefined
    const { rssBytes, workingSetBytes } = found.memory ?? {}
    const bytes = rssBytes || workingSetBytes
    return {
      atMs: Date.parse(found.cpu.time),
      ...(found.cpu.usageCoreNanoSeconds !== undefined && {
        cpuSeconds: found.cpu.usageCoreNanoSeconds / 1e9,
      }),
      ...(bytes && { memoryMiB: bytes / 2 ** 20 }),
    }
  }

interface PodMetrics {
  readonly timestamp: string
  readonly window: string
  readonly containers: readonly {
    readonly name: string
    readonly usage: { readonly cpu: string; readonly memory: string }
  }[]
}

/** A metrics server's averages. */
export const metricsServerLook =
  (api: Api, { name, container }: PodPlace): UsageLook =>
  async (signal) => {
    const path = `/apis/metrics.k8s.io/v1beta1/namespaces/${api.namespace}/pods/${name}`
    const { timestamp, window, containers } = await api.request<PodMetrics>('GET', path, {
      once: true,
      signal,
    })
    const usage = containers.find((one) => one.name === container)?.usage
    if (!usage) return undefined
    return {
      atMs: Date.parse(timestamp),
      memoryMiB: quantity(usage.memory) / 2 ** 20,
      mean: { cores: quantity(usage.cpu), overMs: goDurationMs(window) },
    }
  }

/** '15.043s', '1m30s' → ms. */
const goDurationMs = (text: string): number =>
  [...text.matchAll(/([\d.]+)(ms|h|m|s)/g)].reduce(
    (sum, [, number, unit]) => sum + Number(number) * { ms: 1, s: 1e3, m: 6e4, h: 36e5 }[unit!]!,
    0,
  )
