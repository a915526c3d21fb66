import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import type { LanguageEngine } from '../../servers/known-servers.ts'
import type { ServerKind } from '../../servers/server-kinds.ts'
import { languageServers } from '../../servers/server-kinds.ts'
import { createEngineProbe, findMeteredEngine, parseEngineMetrics } from './engine-probe.ts'

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
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="llama-3.1-8b"} 1000.0
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="llama-3.1-8b"} 4000.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="llama-3.1-8b"} 1500.0
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
# HELP sglang:spec_accept_length The average acceptance length of speculative decoding
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{model_name="llama",tp_rank="0"} 2.9
`,
  tgi: `# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 12
# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_batch_current_max_tokens gauge
tgi_batch_current_max_tokens 16384
`,
  // As llama-server 0.5.0 answers under load.
  'llama.cpp': `# HELP llamacpp:n_tokens_max Largest observed sequence length (prompt + generation)
# TYPE llamacpp:n_tokens_max counter
llamacpp:n_tokens_max 105
# HELP llamacpp:spec_decode_num_accepted_tokens_total Speculative: Total draft tokens accepted by the target model
# TYPE llamacpp:spec_decode_num_accepted_tokens_total counter
llamacpp:spec_decode_num_accepted_tokens_total 0
# HELP llamacpp:spec_decode_num_drafts_total Speculative: Total speculative decoding verification steps
# TYPE llamacpp:spec_decode_num_drafts_total counter
llamacpp:spec_decode_num_drafts_total 0
# HELP llamacpp:requests_processing Number of requests processing
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 4
# HELP llamacpp:requests_deferred Number of requests deferred
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 2
`,
} as const

test('each server says what runs, what waits, and what it knows of its cache', () => {
  expect(parseEngineMetrics(pages.vllm, 'vllm')).toEqual({
    sequences: 64,
    waiting: 20,
    cacheUse: 0.97,
    preemptions: 14,
    accepted: 1500,
    draftings: 1000,
  })
  // Ranks that split one model tell the same sequences.
  expect(parseEngineMetrics(pages.sglang, 'sglang')).toEqual({
    sequences: 48,
    waiting: 7,
    cacheUse: 0.28,
    stepTokens: 2.9,
  })
  expect(parseEngineMetrics(pages.tgi, 'tgi')).toEqual({ sequences: 12, waiting: 3 })
  expect(parseEngineMetrics(pages['llama.cpp'], 'llama.cpp')).toEqual({
    sequences: 4,
    waiting: 2,
    accepted: 0,
    draftings: 0,
  })
  expect(parseEngineMetrics(pages.vllm.replaceAll('kv_cache', 'gpu_cache'), 'vllm').cacheUse).toBe(
    0.97,
  )
  expect(parseEngineMetrics('<html>', 'vllm')).toEqual({})
})

/** A server that answers with one page after the other, and then no more. */
async function probed(server: LanguageEngine, answers: string[]) {
  const pagesServer = createServer((_, response) => response.end(answers.shift())).listen(
    0,
    '127.0.0.1',
  )
  await once(pagesServer, 'listening')
  const probe = createEngineProbe(
    `http://127.0.0.1:${(pagesServer.address() as AddressInfo).port}`,
    server,
  )
  const readings = []
  try {
    while (answers.length > 0) readings.push(await probe())
  } finally {
    pagesServer.close()
    pagesServer.closeAllConnections()
  }
  return { readings, probe }
}

test('preemptions are those since the first look; a server that answers nothing is a look less', async () => {
  const { readings, probe } = await probed('vllm', [
    pages.vllm,
    pages.vllm.replace('} 14.0', '} 31.0'),
  ])
  expect(readings).toMatchObject([{ preemptions: 0, sequences: 64 }, { preemptions: 17 }])
  await expect(probe()).rejects.toThrow()
})

test('draft tokens that a step kept: by counts since the first look, or by what a step makes of an answer', async () => {
  const later = pages.vllm.replace('} 1000.0', '} 3000.0').replace('} 1500.0', '} 5100.0')
  const { readings } = await probed('vllm', [pages.vllm, later])
  expect(readings.map(({ acceptedTokens }) => acceptedTokens)).toEqual([undefined, 1.8])
  const [sglang] = (await probed('sglang', [pages.sglang])).readings
  expect(sglang!.acceptedTokens).toBeCloseTo(1.9)
  // Without drafts it says nought.
  expect(
    (await probed('sglang', [pages.sglang.replace('2.9', '0.0')])).readings[0]!.acceptedTokens,
  ).toBeUndefined()
})

test('who tells nothing is not asked', () => {
  const asked = (command: string, kind?: ServerKind) =>
    findMeteredEngine({
      command: command.split(' '),
      ...(kind && { server: { kind, modelPath: 'm' } }),
    })
  expect(languageServers.filter((kind) => asked('x', kind) === kind)).toEqual([
    'vllm',
    'sglang',
    'tgi',
  ])
  expect(asked('x', 'triton')).toBeUndefined()
})

test.each([
  ['vllm serve m', 'vllm'],
  ['python3 -m sglang.launch_server --enable-metrics', 'sglang'],
  ['/opt/llama/llama-server -m m.gguf --metrics', 'llama.cpp'],
  ['trtllm-serve m', undefined],
  ['gunicorn app:app', undefined],
])("%s, by a command of one's own: %s", (command, engine) => {
  expect(findMeteredEngine({ command: command.split(' ') })).toBe(engine)
})
