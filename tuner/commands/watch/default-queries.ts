/**
 * What each server tells Prometheus of itself, as queries. `$window` stands for the window,
 * `$selector` for the labels of --selector, `$percentile` for the SLO's. Names are those of the
 * servers' own documentation.
 */
import type { LatencyMetric } from '../../../profiler/model/latency-metrics.ts'

/**
 * Figures that a query may give. Only rate and latency are needed; replicas may be given by
 * --replicas.
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

interface Told {
  /**
   * Counter of all requests, or of those that `good` counts where failed ones are another metric.
   */
  readonly requests: string
  /** Failed ones: labels of `requests`, or a counter of its own. */
  readonly failed?:
    | { readonly labels: string }
    | { readonly counter: string; readonly countedApart: boolean }
  /** Histogram of each latency, and how many ms its unit has. Absent: it tells no percentile. */
  readonly latency: Readonly<
    Partial<Record<LatencyMetric, readonly [histogram: string, ms: number]>>
  >
  readonly gpu?: string
  /** The label that has the model's version. */
  readonly version?: string
}

const told = {
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
    failed: { counter: 'nv_inference_request_failure', countedApart: true },
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
    failed: { counter: 'tgi_request_failure', countedApart: true },
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
    failed: { counter: 'ray_serve_num_http_error_requests_total', countedApart: false },
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
} as const satisfies Readonly<Record<string, Told>>

/** Servers, platforms and meshes whose metrics are known. */
type TellingServer = keyof typeof told
export const tellingServers = Object.keys(told) as TellingServer[]

/** The queries of a server; what it does not tell is left out. */
export function defaultQueries(
  server: TellingServer,
  metric: LatencyMetric,
  versionLabel?: string,
): Queries {
  const { requests, failed, latency, gpu, version }: Told = told[server]
  const increase = (name: string, labels = '$selector') => `sum(rate(${name}{${labels}}[$window]))`
  const bad =
    failed &&
    ('labels' in failed
      ? increase(requests, `${failed.labels},$selector`)
      : increase(failed.counter))
  const apart = failed !== undefined && 'counter' in failed && failed.countedApart
  const rate = apart ? `${increase(requests)} + (${bad} or vector(0))` : increase(requests)
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
    ...(bad && { errors: `(${bad} or vector(0)) / (${rate})` }),
    replicas: `count(count by (instance) (${requests}{$selector}))`,
    ...(gpu && { gpu }),
    ...(label && { version: `sum by (${label}) (rate(${requests}{$selector}[$window])) > 0` }),
  }
}

/** A query with what it asks for filled in. */
export const filledQuery = (
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
