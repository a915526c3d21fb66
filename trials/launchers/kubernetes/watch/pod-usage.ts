/** CPU time and memory of a pod's container, from the kubelet of its node or a metrics server. */
import type { Usage } from '../../../types.ts'
import { type Api, ApiError } from '../api/api.ts'
import { parseQuantity } from '../api/quantity.ts'

/**
 * kubelet: counters of the node, through the API server. metrics-server: averages of
 * metrics.k8s.io, every 15 s or so.
 */
export type UsageSource = 'kubelet' | 'metrics-server'

/**
 * Finds the source of usage: the kubelet if permitted, because its counters are exact, else a
 * metrics server. Undefined if there is neither.
 * @throws ApiError if the server does not answer
 */
export async function findUsageSource(api: Api): Promise<UsageSource | undefined> {
  const spec = { resourceAttributes: { verb: 'get', resource: 'nodes', subresource: 'proxy' } }
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec }
  const review = api.request<{ status?: { allowed?: boolean } }>(
    'POST',
    '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    { body },
  )
  if ((await ignoreUnavailable(review))?.status?.allowed) return 'kubelet'
  return (await ignoreUnavailable(
    api.request('GET', '/apis/metrics.k8s.io/v1beta1', { once: true }),
  ))
    ? 'metrics-server'
    : undefined
}

const ignoreUnavailable = <T>(request: Promise<T>): Promise<T | undefined> =>
  request.catch((error: unknown) => {
    // Not served, forbidden, or unavailable: do not rely on it.
    if (error instanceof ApiError && error.status >= 400) return undefined
    throw error
  })

export interface ContainerLocation {
  readonly name: string
  readonly node: string
  readonly container: string
}

/** Usage at a moment of the cluster's clock. */
interface Reading {
  readonly atMs: number
  readonly memoryMiB?: number
  /** CPU time since the container's start, s. */
  readonly cpuSeconds?: number
  /** Mean cores over an interval that ends at `atMs`. */
  readonly mean?: { readonly cores: number; readonly overMs: number }
}

type PodUsage = Pick<Usage, 'cpuCores' | 'busiestCpuCores' | 'peakRssMiB'>

interface PodUsageSampler {
  /** Takes a last sample and summarises. */
  read(): Promise<PodUsage>
  /** Discards earlier usage: the load begins. */
  restart(): void
  stop(): void
}

/** Takes one sample. Rejects, or resolves with undefined, if there is none yet. */
type ReadUsage = (signal: AbortSignal) => Promise<Reading | undefined>

/** Time between two samples, ms. Assumed. */
const sampleIntervalMs = 5_000
/** Rates over shorter intervals are dominated by the resolution of the counter. */
const minIntervalMs = 900

/**
 * Samples a container's usage from now on.
 * @param nowMs clock of the readings
 */
export function samplePodUsage(look: ReadUsage, nowMs: () => number): PodUsageSampler {
  const readings: Reading[] = []
  const end = new AbortController()
  let sinceMs = nowMs()
  const sample = async () => {
    // Ignore failed readings.
    const reading = await look(end.signal).catch(() => undefined)
    if (reading && reading.atMs !== readings.at(-1)?.atMs) readings.push(reading)
  }
  const timer = setInterval(sample, sampleIntervalMs)
  timer.unref()
  let first = sample()
  return {
    read: async () => {
      await first
      await sample()
      return summariseUsage(readings, sinceMs)
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
 * Means and peaks of ordered readings. CPU counts from `sinceMs` on: counters between two readings,
 * averages whose interval starts later. Unknown values are undefined.
 */
export function summariseUsage(readings: readonly Reading[], sinceMs: number): PodUsage {
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
    if (before === undefined || reading.atMs - before.atMs < minIntervalMs) continue
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

/** Reads the kubelet's counters, which it updates every 10 to 15 s. */
export const createKubeletReader =
  (api: Api, { name, node, container }: ContainerLocation): ReadUsage =>
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
    const containerStats = pod?.containers?.find((one) => one.name === container)
    if (!containerStats?.cpu) return undefined
    const { rssBytes, workingSetBytes } = containerStats.memory ?? {}
    const bytes = rssBytes || workingSetBytes
    return {
      atMs: Date.parse(containerStats.cpu.time),
      ...(containerStats.cpu.usageCoreNanoSeconds !== undefined && {
        cpuSeconds: containerStats.cpu.usageCoreNanoSeconds / 1e9,
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

/** Reads the averages of a metrics server. */
export const createMetricsServerReader =
  (api: Api, { name, container }: ContainerLocation): ReadUsage =>
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
      memoryMiB: parseQuantity(usage.memory) / 2 ** 20,
      mean: { cores: parseQuantity(usage.cpu), overMs: parseGoDurationMs(window) },
    }
  }

/** '15.043s', '1m30s' → ms. */
const parseGoDurationMs = (text: string): number =>
  [...text.matchAll(/([\d.]+)(ms|h|m|s)/g)].reduce(
    (sum, [, number, unit]) => sum + Number(number) * { ms: 1, s: 1e3, m: 6e4, h: 36e5 }[unit!]!,
    0,
  )
