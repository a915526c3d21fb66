import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { languageServers } from '../server-files/language-programs.ts'
import { engineProbe, engineReading, tellsEngine } from './engine-probe.ts'

/** In the form that each server documents: names, types and labels of its version. */
const pages = {
  vllm: `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama-3.1-8b"} 64.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="llama-3.1-8b"} 20.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="llama-3.1-8b"} 0.97
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="llama-3.1-8b"} 14.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="llama-3.1-8b"} 1.7e+09
`,
  sglang: `# HELP sglang:num_running_reqs The number of running requests
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="llama",pp_rank="0",tp_rank="0"} 48.0
sglang:num_running_reqs{engine_type="unified",model_name="llama",pp_rank="0",tp_rank="1"} 48.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="llama",pp_rank="0",tp_rank="0"} 7.0
# HELP sglang:token_usage The token usage
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="llama",tp_rank="0"} 0.28
`,
  tgi: `# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 12
# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_batch_current_max_tokens gauge
tgi_batch_current_max_tokens 16384
`,
} as const

test('each server says what runs, what waits, and what it knows of its cache', () => {
  expect(engineReading(pages.vllm, 'vllm')).toEqual({ sequences: 64, waiting: 20, cacheUse: 0.97, preemptions: 14 })
  // Ranks that split one model tell the same sequences.
  expect(engineReading(pages.sglang, 'sglang')).toEqual({ sequences: 48, waiting: 7, cacheUse: 0.28 })
  expect(engineReading(pages.tgi, 'tgi')).toEqual({ sequences: 12, waiting: 3 })
  expect(engineReading(pages.vllm.replaceAll('kv_cache', 'gpu_cache'), 'vllm').cacheUse).toBe(0.97)
  expect(engineReading('<html>', 'vllm')).toEqual({})
})

test('preemptions are those since the first look; a server that answers nothing is a look less', async () => {
  const answers = [pages.vllm, pages.vllm.replace('} 14.0', '} 31.0')]
  const server = createServer((_, response) => response.end(answers.shift())).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const probe = engineProbe(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, 'vllm')
  try {
    expect(await probe()).toMatchObject({ preemptions: 0, sequences: 64 })
    expect(await probe()).toMatchObject({ preemptions: 17 })
  } finally {
    server.close()
    server.closeAllConnections()
  }
  await expect(probe()).rejects.toThrow()
})

test('who tells nothing is not asked', () => {
  expect(languageServers.filter(tellsEngine)).toEqual(['vllm', 'sglang', 'tgi'])
})
