/** Prometheus counters of answered requests that model servers are known to export. */
import { type DeployedServer, recogniseCommandServer } from '../../figures.ts'
import type { Container } from '../serving.ts'

/** Counters as each server documents them; absent: none is known. */
export const requestCounters = {
  builtin: 'predictor_requests_total',
  tfserving: ':tensorflow:serving:request_count',
  triton: 'nv_inference_request_success',
  mlserver: 'model_infer_request_success_total',
  vllm: 'vllm:request_success_total',
  sglang: 'sglang:e2e_request_latency_seconds_count',
  tgi: 'tgi_request_success',
  'tensorrt-llm': 'trtllm_request_success_total',
} as const satisfies Partial<Record<DeployedServer, string>>

const tritonMetricsPort = 8002

/**
 * Finds the counter of a server that a command of the user's own starts, where its metrics are on;
 * empty if none is known to be exported.
 */
export function findCommandCounter(
  words: readonly string[],
): Pick<Container, 'requestsMetric' | 'metrics'> {
  const findFlagValue = (flag: string) => {
    const index = words.findIndex((word) => word === flag || word.startsWith(`${flag}=`))
    return index < 0 ? undefined : (words[index]!.split('=')[1] ?? words[index + 1])
  }
  const server = recogniseCommandServer(words)
  switch (server) {
    case 'builtin':
    case 'tgi':
      return { requestsMetric: requestCounters[server] }
    case 'vllm':
      return words.includes('--disable-log-stats') ? {} : { requestsMetric: requestCounters.vllm }
    case 'sglang':
      return words.includes('--enable-metrics') ? { requestsMetric: requestCounters.sglang } : {}
    case 'triton':
      return /^(false|0)$/i.test(findFlagValue('--allow-metrics') ?? '')
        ? {}
        : {
            requestsMetric: requestCounters.triton,
            metrics: {
              port: Number(findFlagValue('--metrics-port') ?? tritonMetricsPort),
              path: '/metrics',
            },
          }
    default:
      return {}
  }
}
