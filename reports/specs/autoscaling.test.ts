import { describe, expect, test } from 'vitest'
import { renderSpec, type SpecTargetName } from './index.ts'
import { findCommandCounter } from './servers/request-counters.ts'
import type { Container, Serving } from './serving.ts'
import { evidence, noGpu, quarter, serving } from './spec-samples.contract.ts'
import type { SpecOptions } from './target.ts'
import { checkManifests } from './validate.contract.ts'

/** Of a server whose metrics are not known. */
const unknown: Partial<Container> = { requestsMetric: undefined }

async function rendered(s: Serving, options: SpecOptions, target: SpecTargetName = 'kubernetes') {
  const text = (await renderSpec(target, s, options)).map((file) => file.text).join('\n')
  const { objects, problems } = checkManifests(text)
  expect(problems).toEqual([])
  return { text, kinds: objects.map(({ kind }) => kind), objects: JSON.stringify(objects) }
}

const busy = (s: Serving, cpuCoresBusy: number | undefined): Serving => ({
  ...s,
  evidence: { ...evidence, cpuCoresBusy },
})

describe('a server whose request counter is not known', () => {
  test('scales on CPU where its cores are what is busy', async () => {
    const { text, objects } = await rendered(serving({}, noGpu, unknown), {})
    expect(objects).toContain(
      '"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":64}}}]',
    )
    expect(text).not.toContain('prometheus')
    expect(text).toMatch(/# Note: scales from 6 \(enough for the demand\) to 12 replicas/)
  })

  test.each([
    ['a GPU server', serving({}, quarter, unknown), /does not follow the load of a GPU server/],
    ['idle cores', busy(serving({}, noGpu, unknown), 0.3), /cores are only 20 % busy/],
    ['no figure', busy(serving({}, noGpu, unknown), undefined), /CPU usage was not measured/],
  ])('has no autoscaler where CPU says nothing: %s', async (_, s, why) => {
    const { text, kinds, objects } = await rendered(s, {})
    expect(kinds).not.toContain('HorizontalPodAutoscaler')
    expect(objects).toContain('"replicas":6')
    expect(text).toMatch(/# Note: no autoscaler: this server exports no request counter/)
    expect(text).toMatch(why)
    expect(text).not.toMatch(/scales from|per replica: safe/)
    const standard = await rendered(s, {}, 'kserve')
    expect(standard.text).toMatch(why)
    expect(standard.objects).toContain('"serving.kserve.io/autoscalerClass":"none"')
  })

  test.each([
    ['kubernetes', { autoscaler: 'keda' }, 'bert'],
    ['kserve', { variant: 'keda' }, 'bert-predictor'],
  ] as const)('scales on requests that Istio counts: %s %o', async (target, options, workload) => {
    const { text, objects } = await rendered(serving({}, quarter, unknown), options, target)
    expect(objects).toContain(
      JSON.stringify(
        `sum(rate(istio_requests_total{reporter="destination",destination_workload_namespace="default",destination_workload="${workload}"}[1m]))`,
      ),
    )
    expect(text).toMatch(/needs KEDA.*the pods need Istio's sidecar/)
    expect(objects).not.toContain('prometheus.io/scrape')
  })
})

test.each([
  ['triton', 'nv_inference_request_success'],
  ['tfserving', ':tensorflow:serving:request_count'],
] as const)('%s scales on its own counter', async (server, requestsMetric) => {
  for (const autoscaler of ['hpa', 'keda'] as const) {
    const { text, objects } = await rendered(serving({ server }, quarter, { requestsMetric }), {
      autoscaler,
    })
    expect(text).toContain(requestsMetric)
    expect(text).toMatch(/ at 153 req\/s per replica: safe capacity x \(1 - headroom\)/)
    expect(objects).toContain('prometheus.io/scrape')
  }
})

test.each<[string, Pick<Container, 'requestsMetric' | 'metrics'>]>([
  ['vllm serve m --port 8000', { requestsMetric: 'vllm:request_success_total' }],
  ['python3 -m vllm.entrypoints.openai.api_server --disable-log-stats', {}],
  ['python3 -m sglang.launch_server --model-path m', {}],
  [
    'python3 -m sglang.launch_server --enable-metrics',
    { requestsMetric: 'sglang:e2e_request_latency_seconds_count' },
  ],
  [
    'tritonserver --model-repository=/m --metrics-port=9102',
    {
      requestsMetric: 'nv_inference_request_success',
      metrics: { port: 9102, path: '/metrics' },
    },
  ],
  ['tritonserver --allow-metrics false', {}],
  // Counts for Prometheus only by a file, whose contents are not known.
  ['tensorflow_model_server --rest_api_port=8501', {}],
  ['gunicorn app:app', {}],
])('the counter of an own command: %s', (command, counter) => {
  expect(findCommandCounter(command.split(' '))).toEqual(counter)
})
