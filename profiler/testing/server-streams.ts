/**
 * Streams as servers of language models write them, each with its habits: what their sources and
 * documentation say, not recordings. vLLM 0.11, SGLang 0.5, Text Generation Inference 3.3,
 * llama.cpp's server, TensorRT-LLM's trtllm-serve 1.0, and gateways before them.
 */
interface ServerStream {
  readonly server: string
  /** The chunks as the server writes them to its socket. */
  readonly writes: readonly string[]
  readonly text: string
  readonly tokens: number
  /** Of them before the first that is seen. */
  readonly hiddenTokens?: number
  readonly inputTokens?: number
  /** Of each chunk with tokens after the first that is seen, in tokens. */
  readonly tokensEach: readonly number[]
  readonly fault?: string
}

const json = (value: object) => `data: ${JSON.stringify(value)}`
const chat = (delta: object, finish: string | null = null, more: object = {}) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  ...more,
})
const usage = (prompt_tokens: number, completion_tokens: number) => ({
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
})
const done = 'data: [DONE]\n\n'
const lf = (...lines: readonly string[]) => lines.map((line) => `${line}\n\n`).join('')
const crlf = (...lines: readonly string[]) => lines.map((line) => `${line}\r\n\r\n`).join('')

export const serverStreams: readonly ServerStream[] = [
  {
    server: 'vLLM: a role first, usage at the end with no choices',
    writes: [
      lf(json(chat({ role: 'assistant', content: '' }))),
      lf(json(chat({ content: 'Grüße' }))),
      lf(json(chat({ content: ' 😀' }))),
      lf(json(chat({ content: '' }, 'length'))),
      lf(json({ ...chat({}), choices: [], ...usage(12, 2) })) + done,
    ],
    text: 'Grüße 😀',
    tokens: 2,
    inputTokens: 12,
    tokensEach: [1],
  },
  {
    server:
      'vLLM with speculative decoding: several tokens a chunk, usage in each (continuous_usage_stats)',
    writes: [
      lf(json(chat({ role: 'assistant', content: '' }, null, usage(9, 0)))),
      lf(json(chat({ content: 'one two three' }, null, usage(9, 3)))),
      lf(json(chat({ content: ' four' }, null, usage(9, 4)))),
      lf(json(chat({ content: ' five six' }, 'length', usage(9, 6)))),
      lf(json({ ...chat({}), choices: [], ...usage(9, 6) })) + done,
    ],
    text: 'one two three four five six',
    tokens: 6,
    inputTokens: 9,
    tokensEach: [1, 2],
  },
  {
    server: 'vLLM: the ids of the tokens of each chunk (return_token_ids)',
    writes: [
      lf(
        json({
          model: 'm',
          choices: [{ index: 0, text: 'ab', token_ids: [5, 6], finish_reason: null }],
        }),
      ),
      lf(
        json({
          model: 'm',
          choices: [{ index: 0, text: 'cde', token_ids: [7, 8, 9], finish_reason: 'length' }],
        }),
      ) + done,
    ],
    text: 'abcde',
    tokens: 5,
    tokensEach: [3],
  },
  {
    server:
      'vLLM: end tokens that are ignored (ignore_eos) have chunks without text, the last one among them',
    writes: [
      lf(json(chat({ role: 'assistant', content: '' }))),
      lf(json(chat({ content: 'a' }))),
      lf(json(chat({ content: '' }))),
      lf(json(chat({ content: '' }))),
      lf(json(chat({ content: 'b' }))),
      lf(json(chat({ content: '' }, 'length'))),
      lf(json({ ...chat({}), choices: [], ...usage(12, 5) })) + done,
    ],
    text: 'ab',
    tokens: 5,
    inputTokens: 12,
    tokensEach: [1, 1, 1, 1],
  },
  {
    server:
      'vLLM: what may begin a stop sequence is held back, its tokens are chunks without text before the first one that has some',
    writes: [
      lf(json(chat({ role: 'assistant', content: '' }))),
      lf(json(chat({ content: '' }))),
      lf(json(chat({ content: '' }))),
      lf(json(chat({ content: 'I ' }))),
      lf(json(chat({ content: 'am' }, 'length'))),
      lf(json({ ...chat({}), choices: [], ...usage(12, 4) })) + done,
    ],
    text: 'I am',
    tokens: 4,
    hiddenTokens: 2,
    inputTokens: 12,
    tokensEach: [1],
  },
  {
    server: 'vLLM: an answer of end tokens alone',
    writes: [
      lf(json(chat({ role: 'assistant', content: '' }))),
      lf(json(chat({ content: '' }))),
      lf(json(chat({ content: '' }, 'length'))),
      lf(json({ ...chat({}), choices: [], ...usage(12, 2) })) + done,
    ],
    text: '',
    tokens: 2,
    inputTokens: 12,
    tokensEach: [1],
  },
  {
    server:
      'vLLM: a thought under its old name and its new one, beside the beginning of the answer',
    writes: [
      lf(json(chat({ reasoning: 'hm', reasoning_content: 'hm' }))),
      lf(json(chat({ reasoning: '!', reasoning_content: '!', content: 'y' }))),
      lf(json(chat({ content: 'es' }, 'stop'))) + done,
    ],
    text: 'hm!yes',
    tokens: 3,
    tokensEach: [1, 1],
  },
  {
    server: 'thoughts that are counted and not told (completion_tokens_details)',
    writes: [
      lf(json(chat({ role: 'assistant', content: '' }))),
      lf(json(chat({ content: 'y' }))),
      lf(json(chat({ content: 'es' }))),
      lf(json(chat({ content: '!' }, 'stop'))),
      lf(
        json({
          ...chat({}),
          choices: [],
          usage: { ...usage(9, 303).usage, completion_tokens_details: { reasoning_tokens: 300 } },
        }),
      ) + done,
    ],
    text: 'yes!',
    tokens: 303,
    hiddenTokens: 300,
    inputTokens: 9,
    tokensEach: [1, 1],
  },
  {
    server: 'SGLang: thoughts that are counted and told',
    writes: [
      lf(json(chat({ role: 'assistant', content: '' }))),
      lf(json(chat({ reasoning_content: 'hm' }))),
      lf(json(chat({ content: 'yes' }))),
      lf(json(chat({}, 'length'))),
      lf(json({ ...chat({}), choices: [], usage: { ...usage(9, 2).usage, reasoning_tokens: 1 } })) +
        done,
    ],
    text: 'hmyes',
    tokens: 2,
    inputTokens: 9,
    tokensEach: [1],
  },
  {
    server: 'a gateway: a usage of nothing in every chunk, and the count in the last one with text',
    writes: [
      lf(json(chat({ content: 'aaaa' }, null, usage(0, 0)))),
      lf(json(chat({ content: 'bbbb' }, null, usage(0, 0)))),
      lf(json(chat({ content: 'cccc' }, 'stop', usage(8, 3)))) + done,
    ],
    text: 'aaaabbbbcccc',
    tokens: 3,
    inputTokens: 8,
    tokensEach: [1, 1],
  },
  {
    server: 'SGLang with a stream interval: several tokens a chunk, counted at the end alone',
    writes: [
      lf(json(chat({ role: 'assistant', content: '', reasoning_content: null, tool_calls: null }))),
      lf(json(chat({ content: 'aaaa' }))),
      lf(json(chat({ content: 'bbbbbbbb' }))),
      lf(json(chat({ content: 'cccc' }, null, { usage: null }))),
      lf(json(chat({}, 'stop', { matched_stop: 128009 }))),
      lf(json({ ...chat({}), choices: [], ...usage(7, 12) })) + done,
    ],
    text: 'aaaabbbbbbbbcccc',
    tokens: 12,
    inputTokens: 7,
    tokensEach: [5, 3, 1],
  },
  {
    server:
      'Text Generation Inference: no space after the colon, comments to keep the connection, its usage beside the last token',
    writes: [
      ':\n\n',
      `data:${JSON.stringify(chat({ role: 'assistant', content: 'Hi' }))}\n\n`,
      ': keep-alive\n\n',
      `data:${JSON.stringify(chat({ role: 'assistant', content: ' there' }))}\n\n`,
      `data:${JSON.stringify(chat({ role: 'assistant', content: '' }, 'length', usage(3, 2)))}\n\ndata: [DONE]\n\n`,
    ],
    text: 'Hi there',
    tokens: 2,
    inputTokens: 3,
    tokensEach: [1],
  },
  {
    server:
      "llama.cpp's server: content null first, timings at the end, an end token that has no text",
    writes: [
      lf(json(chat({ role: 'assistant', content: null }))),
      lf(json(chat({ content: 'x' }))),
      lf(json(chat({ content: 'y' }))),
      lf(json(chat({}, 'stop'))),
      lf(
        json({
          ...chat({}),
          choices: [],
          ...usage(4, 3),
          timings: { prompt_n: 4, predicted_n: 3, predicted_ms: 30.5 },
        }),
      ) + done,
    ],
    text: 'xy',
    tokens: 3,
    inputTokens: 4,
    tokensEach: [1, 1],
  },
  {
    server: 'trtllm-serve: the whole usage in the chunk that finishes',
    writes: [
      lf(json(chat({ role: 'assistant', content: 'p' }))),
      lf(json(chat({ content: 'q' }))),
      lf(json(chat({ content: 'r' }, 'length', usage(5, 3)))) + done,
    ],
    text: 'pqr',
    tokens: 3,
    inputTokens: 5,
    tokensEach: [1, 1],
  },
  {
    server: 'a gateway: CRLF, event names, pings, a filter result without choices first',
    writes: [
      crlf(
        'event: ping',
        json({
          id: '',
          object: '',
          model: '',
          choices: [],
          prompt_filter_results: [{ prompt_index: 0 }],
        }),
      ),
      `event: message\r\nid: 1\r\n${crlf(json(chat({ content: 'a' })))}`,
      `retry: 3000\r\n${crlf(json(chat({ content: 'b' }, 'stop')))}`,
      crlf('data: [DONE]'),
    ],
    text: 'ab',
    tokens: 2,
    tokensEach: [1],
  },
  {
    server: 'calls of tools: names and arguments are tokens',
    writes: [
      lf(
        json(
          chat({
            role: 'assistant',
            content: null,
            tool_calls: [
              { index: 0, id: 'c', type: 'function', function: { name: 'weather', arguments: '' } },
            ],
          }),
        ),
      ),
      lf(json(chat({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] }))),
      lf(json(chat({ tool_calls: [{ index: 0, function: { arguments: '"Bonn"}' } }] }))),
      lf(json(chat({}, 'tool_calls'))) + done,
    ],
    text: 'weather{"city":"Bonn"}',
    tokens: 3,
    tokensEach: [1, 1],
  },
  {
    server: 'a model that reasons aloud first',
    writes: [
      lf(json(chat({ reasoning_content: 'hm' }))),
      lf(json(chat({ content: 'yes' }, 'stop'))) + done,
    ],
    text: 'hmyes',
    tokens: 2,
    tokensEach: [1],
  },
  {
    server: 'vLLM: a status of 200 and an error inside, after some tokens',
    writes: [
      lf(json(chat({ content: 'a' }))),
      lf(
        json({
          error: {
            message: 'EngineCore encountered an issue.',
            type: 'InternalServerError',
            param: null,
            code: 500,
          },
        }),
      ) + done,
    ],
    text: 'a',
    tokens: 1,
    tokensEach: [],
    fault: 'error in stream',
  },
  {
    server: 'Text Generation Inference: an error under its own event name',
    writes: [
      `event: error\ndata:${JSON.stringify({ error: 'Request failed during generation: CUDA out of memory', error_type: 'generation' })}\n\n`,
    ],
    text: '',
    tokens: 0,
    tokensEach: [],
    fault: 'error in stream',
  },
  {
    server: 'SGLang: aborted by the scheduler, told as a finish reason',
    writes: [
      lf(
        json({
          error: {
            object: 'error',
            message: 'Request is aborted',
            type: 'ServiceUnavailable',
            code: 503,
          },
        }),
      ) + done,
    ],
    text: '',
    tokens: 0,
    tokensEach: [],
    fault: 'error in stream',
  },
  ...['abort', 'error'].map((reason) => ({
    server: `vLLM, SGLang, LMDeploy: an answer that the server gave up, by its finish_reason ${reason}`,
    writes: [
      lf(json(chat({ content: 'a' }))),
      lf(json(chat({}, reason))),
      lf(json({ ...chat({}), choices: [], ...usage(4, 1) })) + done,
    ],
    text: 'a',
    tokens: 1,
    inputTokens: 4,
    tokensEach: [],
    fault: 'aborted',
  })),
]
