/**
 * Prometheus queries for known servers. `$window`, `$selector` (labels of --selector) and
 * `$percentile` (of the SLO) are filled in. Metric names are from the documentation of each server.
 */
import type { LatencyMetric } from '../../../../profiler/model/latency-metrics.ts'

/**
 * Figures that a query can return. Only rate and latency are required; --replicas can replace a
 * query.
 */
export const figureNames = [
  'rate',
  'latency',
  'errors',
  'replicas',
  'gpu',
  'price',
  'version',
] as const
export type FigureName = (typeof figureNames)[number]

/** `latency` in ms, `errors` and `gpu` as shares, `price` per hour of one replica. */
export type Queries = Readonly<Partial<Record<FigureName, string>>>

interface ServerMetrics {
  /** Counter of requests: of all, or of successful ones if `isExcludedFromRequests`. */
  readonly requests: string
  /**
   * Failed requests: labels of `requests`, or a separate counter, whose requests `requests` may not
   * count.
   */
  readonly failed?:
    | { readonly labels: string }
    | { readonly counter: string; readonly isExcludedFromRequests: boolean }
  /** Histogram of each latency, and ms per unit. Absent: no percentile is exported. */
  readonly latency: Readonly<
    Partial<Record<LatencyMetric, readonly [histogram: string, ms: number]>>
  >
  readonly gpu?: string
  /** Label with the version of the model. */
  readonly version?: string
}

const serverMetrics = {
  builtin: {
    requests: 'predictor_requests_total',
    failed: { labels: 'status=~"5.."' },
    latency: { e2e: ['predictor_request_seconds', 1000] },
    version: 'version',
  },
  tfserving: {
    requests: ':tensorflow:serving:request_count',
    failed: { labels: 'status!="OK"' },
    latency: { e2e: [':tensorflow:serving:request_latency', 0.001] },
  },
  triton: {
    requests: 'nv_inference_request_success',
    failed: { counter: 'nv_inference_request_failure', isExcludedFromRequests: true },
    latency: {},
    gpu: 'avg(nv_gpu_utilization{$selector})',
    version: 'version',
  },
  mlserver: {
    requests: 'rest_server_requests_total',
    failed: { labels: 'status_code=~"5.."' },
    latency: { e2e: ['rest_server_requests_duration_seconds', 1000] },
  },
  vllm: {
    requests: 'vllm:request_success_total',
    latency: {
      e2e: ['vllm:e2e_request_latency_seconds', 1000],
      ttft: ['vllm:time_to_first_token_seconds', 1000],
      tpot: ['vllm:request_time_per_output_token_seconds', 1000],
    },
  },
  sglang: {
    requests: 'sglang:num_requests_total',
    latency: {
      e2e: ['sglang:e2e_request_latency_seconds', 1000],
      ttft: ['sglang:time_to_first_token_seconds', 1000],
    },
  },
  tgi: {
    requests: 'tgi_request_success',
    failed: { counter: 'tgi_request_failure', isExcludedFromRequests: true },
    latency: {
      e2e: ['tgi_request_duration', 1000],
      tpot: ['tgi_request_mean_time_per_token_duration', 1000],
    },
  },
  'tensorrt-llm': {
    requests: 'trtllm_request_success_total',
    latency: {
      e2e: ['trtllm_e2e_request_latency_seconds', 1000],
      ttft: ['trtllm_time_to_first_token_seconds', 1000],
      tpot: ['trtllm_time_per_output_token_seconds', 1000],
    },
  },
  ray: {
    requests: 'ray_serve_num_http_requests_total',
    failed: { counter: 'ray_serve_num_http_error_requests_total', isExcludedFromRequests: false },
    latency: { e2e: ['ray_serve_http_request_latency_ms', 1] },
  },
  seldon: {
    requests: 'seldon_api_executor_server_requests_seconds_count',
    failed: { labels: 'code=~"5.."' },
    latency: { e2e: ['seldon_api_executor_server_requests_seconds', 1000] },
    version: 'model_version',
  },
  kserve: {
    requests: 'revision_app_request_count',
    failed: { labels: 'response_code_class="5xx"' },
    latency: { e2e: ['revision_app_request_latencies', 1] },
  },
  istio: {
    requests: 'istio_requests_total',
    failed: { labels: 'response_code=~"5.."' },
    latency: { e2e: ['istio_request_duration_milliseconds', 1] },
  },
} as const satisfies Readonly<Record<string, ServerMetrics>>

/** Servers, platforms and meshes with known metrics. */
type MonitoredServer = keyof typeof serverMetrics
export const monitoredServers = Object.keys(serverMetrics) as MonitoredServer[]

/** Builds the queries of a server, without figures that it does not export. */
export function buildDefaultQueries(
  server: MonitoredServer,
  metric: LatencyMetric,
  versionLabel?: string,
): Queries {
  const { requests, failed, latency, gpu, version }: ServerMetrics = serverMetrics[server]
  const sumRate = (name: string, labels = '$selector') => `sum(rate(${name}{${labels}}[$window]))`
  const badRequests =
    failed &&
    ('labels' in failed ? sumRate(requests, `${failed.labels},$selector`) : sumRate(failed.counter))
  const isExcludedFromRequests =
    failed !== undefined && 'counter' in failed && failed.isExcludedFromRequests
  const rate = isExcludedFromRequests
    ? `${sumRate(requests)} + (${badRequests} or vector(0))`
    : sumRate(requests)
  const [histogram, ms] = latency[metric] ?? []
  const label = versionLabel ?? version
  const summary =
    server === 'triton' && metric === 'e2e'
      ? 'max(nv_inference_request_summary_us{quantile="$percentile",$selector}) / 1000'
      : undefined
  const percentile =
    histogram &&
    `histogram_quantile($percentile, sum by (le) (rate(${histogram}_bucket{$selector}[$window]))) * ${ms}`
  return {
    rate,
    ...((percentile ?? summary) && { latency: percentile ?? summary }),
    ...(badRequests && { errors: `(${badRequests} or vector(0)) / (${rate})` }),
    replicas: `count(count by (instance) (${requests}{$selector}))`,
    ...(gpu && { gpu }),
    ...(label && { version: `sum by (${label}) (rate(${requests}{$selector}[$window])) > 0` }),
  }
}

/** Fills in the placeholders of a query. */
export const fillQuery = (
  query: string,
  {
    windowS,
    selector,
    percentile,
  }: { readonly windowS: number; readonly selector: string; readonly percentile: number },
): string =>
  query
    .replaceAll('$window', `${windowS}s`)
    .replaceAll('$percentile', String(percentile))
    .replace(/,\$selector/g, selector === '' ? '' : `,${selector}`)
    .replaceAll('$selector', selector)
