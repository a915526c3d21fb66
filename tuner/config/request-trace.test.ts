import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLlmRequests } from '../problem/llm-requests.ts'
import { loadExperiment } from './load-experiment.ts'
import { readLengths } from './recorded-lengths.ts'
import { readRequestTrace } from './request-trace.ts'
import { describeTrace, readTrace } from './trace.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'mooncake-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const write = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
const trace = [
  { timestamp: 27, input_length: 6758, output_length: 500, hash_ids: [0, 1, 2] },
  { timestamp: 30, input_length: 0, output_length: 490, hash_ids: [] },
  { timestamp: 3527, input_length: 1200, output_length: 9, hash_ids: [0, 1, 5] },
]
const lines = (of: readonly object[]) => `${of.map((each) => JSON.stringify(each)).join('\n')}\n`

test('lengths, blocks and times of one file, failed requests left out of all', () => {
  const path = write('t.jsonl', lines(trace))
  expect(readLengths(path, 't.jsonl')).toEqual([
    [6758, 500, [0, 1, 2]],
    [1200, 9, [0, 1, 5]],
  ])
  expect(readTrace(path, 't.jsonl')).toEqual({
    atMs: [0, 3500],
    readAs: 'ms (Mooncake: whole numbers)',
  })
})

test.each([
  ['{"timestamp": 1, "input_length": 5}\n', 't.jsonl:1: output_length: '],
  ['{"timestamp": 1, "input_length": 5, "output_length": 5}\n{', 't.jsonl:2: not JSON'],
  [
    lines([
      { ...trace[0], timestamp: 5 },
      { ...trace[0], timestamp: 4 },
    ]),
    't.jsonl:2: 4 is before the line above',
  ],
  ['\n', 't.jsonl has no request with tokens on both sides'],
])('%j names its line', (text, message) => {
  expect(() => readRequestTrace(write('t.jsonl', text), 't.jsonl')).toThrow(message)
})

describe('times and blocks are read by what the file says of them', () => {
  const request = (timestamp: number, input_length: number, blocks: number, more = {}) => ({
    timestamp,
    input_length,
    output_length: 16,
    hash_ids: Array.from({ length: blocks }, (_, i) => i),
    ...more,
  })
  const read = (requests: readonly object[], unit?: 's' | 'ms') =>
    readRequestTrace(write('u.jsonl', lines(requests)), 'u.jsonl', unit)

  test('Bailian: seconds, blocks of 16 tokens', () => {
    const { requests, readAs } = read([
      request(0.114, 230, 15, { chat_id: 7000 }),
      request(8.45, 33, 3, { chat_id: 7001 }),
    ])
    expect(readAs).toBe('s (Bailian: it has chat_id)')
    expect(requests.map(({ atMs }) => atMs)).toEqual([114, 8450])
    expect(requests[1]!.prompt).toEqual([33, 16, [0, 1, 2], 16])
  })

  test('another block size is found by what fills it, and its times are asked for', () => {
    const requests = [request(0, 200, 4), request(3, 130, 3)]
    expect(() => read(requests)).toThrow(/unit of timestamp is unknown \(blocks of 64 tokens/)
    expect(read(requests, 's').requests.map(({ atMs, prompt }) => [atMs, prompt[3]])).toEqual([
      [0, 64],
      [3000, 64],
    ])
  })

  test('fractions are not Mooncake: the unit is asked for', () => {
    const requests = [request(0.5, 100, 1), request(2.25, 100, 1)]
    expect(() => read(requests)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('trace:u.jsonl:s for seconds') }),
    )
    expect(read(requests, 's').requests.map(({ atMs }) => atMs)).toEqual([500, 2250])
  })

  test('blocks that fit no size are refused with an example', () =>
    expect(() => read([request(0, 100, 90)])).toThrow(/a request of 100 tokens has 90 blocks/))
})

describe('a CSV of times', () => {
  const read = (text: string, unit?: 's' | 'ms') => readTrace(write('t.csv', text), 't.csv', unit)
  test.each([
    ['a header names the unit', 'arrival_s,items\n0,1\n1.5,2\n', [0, 1500], 's (by its header)'],
    ['in brackets', 'Time (us)\n0\n2500\n', [0, 2.5], 'us (by its header)'],
    ['as a word', 'id,offsetSeconds\na,0\nb,2\n', [0, 2000], 's (by its header)'],
    ['dates', 'TIMESTAMP\n2023-11-16 18:17:03.5\n2023-11-16 18:17:05.0\n', [0, 1500], 'dates'],
    ['since 1970', 'timestamp\n1700000000.0\n1700000002\n', [0, 2000], 's (since 1970)'],
    ['since 1970 in ms', 'timestamp\n1700000000000\n1700000002000\n', [0, 2000], 'ms (since 1970)'],
    [
      'BurstGPT',
      'Timestamp,Model,Request tokens,Response tokens\n5,m,10,4\n45,m,10,4\n',
      [0, 40_000],
      's (BurstGPT)',
    ],
    ['times alone', '0\n12\n', [0, 12], 'ms (no header)'],
  ])('%s', (_, text, atMs, readAs) => expect(read(text)).toMatchObject({ atMs, readAs }))

  test.each([
    [
      'a column of times without a unit',
      'timestamp,items\n0,1\n7,2\n',
      "the name of its column 'timestamp'",
    ],
    ['fractions without a header', '0\n0.25\n', 'it has fractions and no header'],
  ])('%s asks for it', (_, text, why) => {
    expect(() => read(text)).toThrow(`t.csv: the unit of its times is unknown: ${why}`)
    expect(read(text, 's').readAs).toBe('s (as requested)')
  })

  test('a header without times names its columns', () =>
    expect(() => read('who,what\na,b\n')).toThrow('t.csv:1: no column of times among who, what'))
})

test('a run says over which time it sends how many requests, and doubts a span that fits badly', () => {
  expect(describeTrace({ atMs: [0, 4000, 8336] }, 's (Bailian)', 10)).toEqual([
    'trace: 3 requests over 8.34 s, times read as s (Bailian)',
  ])
  expect(describeTrace({ atMs: [0, 4, 8.3] }, 'ms (no header)', 10)).toEqual([
    'trace: 3 requests over 0.0083 s, times read as ms (no header)',
    expect.stringMatching(
      /^warning: a trace over 0\.0083 s for a window of 10 s: if its times are not in ms,/,
    ),
  ])
  expect(describeTrace({ atMs: [0, 4000, 50_000] }, 'ms', 10)[0]).toContain(
    'the first 2 are sent in a window of 10 s',
  )
})

test('as load of an experiment: what requests share is known to the simulated cache', () => {
  write('t.jsonl', lines(trace))
  write(
    'e.yaml',
    'model: llama-3.1-8b\nslo: ttft<1s\nload: {arrivals: "trace:t.jsonl", payload: {lengths: t.jsonl, count: 2}}\n',
  )
  const { load } = loadExperiment({
    file: 'e.yaml',
    cwd: folder,
    machine: { cpuCores: 2, gpus: [] },
  })
  expect(load.arrivals).toMatchObject({ kind: 'trace', atMs: [0, 3500] })
  expect(
    createLlmRequests(load.payload).map(({ promptTokens, outputTokens, prefix }) => [
      promptTokens,
      outputTokens,
      16 * prefix.length,
    ]),
  ).toEqual([
    [6758, 500, 1024],
    [1200, 9, 1024],
  ])
})

test('turns and conversations go into the experiment and its document; they contradict recorded lengths', () => {
  const load = (payload: string) => {
    write('e.yaml', `model: llama-3.1-8b\nslo: ttft<1s\nload: {payload: ${payload}}\n`)
    return loadExperiment({ file: 'e.yaml', cwd: folder, machine: { cpuCores: 2, gpus: [] } })
  }
  const { load: read, document } = load(
    '{inputTokens: 100, outputTokens: 20, turns: 1..3, conversations: 8, count: 40}',
  )
  expect(read.payload).toMatchObject({
    prompts: { turns: { kind: 'uniform', from: 1, to: 3 }, conversations: 8 },
  })
  expect(document.load).toMatchObject({ payload: { turns: '1..3', conversations: 8 } })
  expect(() => load('{conversations: 8}')).toThrow('conversations without turns')
  expect(() => load('{turns: 2, lengths: t.jsonl}')).toThrow('both turns and recorded lengths')
})

test("times of Azure's and BurstGPT's traces", () => {
  const azure =
    'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:46.9,0,0\n2023-11-16 18:15:50.9951690,396,109\n'
  expect(readTrace(write('azure.csv', azure), 'azure.csv').atMs).toEqual([0, 4315])
  const burst =
    'Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n45,ChatGPT,1087,230\n'
  expect(readTrace(write('burst.csv', burst), 'burst.csv').atMs).toEqual([0, 40_000])
  // Of 2024, with a zone, and a second that has no fraction.
  const later =
    'TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 01:00:01+01:00,2399,6\n'
  expect(readTrace(write('azure.csv', later), 'azure.csv').atMs).toEqual([0, 991])
  expect(() => readTrace(write('odd.csv', 'timestamp_s\n9\n5\n'), 'odd.csv')).toThrow(
    "odd.csv:3: '5' is before the line above",
  )
  expect(() => readTrace(write('odd.csv', 'timestamp\nsoon\nlater\n'), 'odd.csv')).toThrow(
    "odd.csv:2: 'soon' is not a time",
  )
})

test.each([
  ['seconds', '1700000000.5', '1700000002'],
  ['milliseconds', '1700000000500', '1700000002000'],
  ['microseconds', '1700000000500000', '1700000002000000'],
])('times since 1970 in %s', (_, first, second) => {
  expect(
    readTrace(write('epoch.csv', `timestamp\n${first}\n${second}\n`), 'epoch.csv').atMs,
  ).toEqual([0, 1500])
})

test('cells in quotes, of which one has a comma', () => {
  const quoted =
    '"Timestamp","Model","Request tokens","Response tokens"\n"5","a, b","472","18"\n"6","c","0","4"\n"45","d","1087","230"\n'
  const path = write('quoted.csv', quoted)
  expect(readTrace(path, 'quoted.csv').atMs).toEqual([0, 40_000])
  expect(readLengths(path, 'quoted.csv')).toEqual([
    [472, 18],
    [1087, 230],
  ])
})

const shared = JSON.stringify([
  {
    conversations: [
      { from: 'human', value: 'one two three' },
      { from: 'gpt', value: `four ${'five '.repeat(29)}`.trim() },
      { from: 'human', value: 'six' },
      { from: 'gpt', value: 'seven eight' },
    ],
  },
])

test("ShareGPT's conversations are a payload: what was said, turn by turn, simulated too; no lengths stand beside them", () => {
  write('share.json', shared)
  const load = (payload: string) => {
    write('e.yaml', `model: llama-3.1-8b\nslo: ttft<1s\nload: {payload: ${payload}}\n`)
    return loadExperiment({ file: 'e.yaml', cwd: folder, machine: { cpuCores: 2, gpus: [] } })
  }
  const { load: loaded, document } = load('share.json')
  expect(
    createLlmRequests(loaded.payload).map(({ promptTokens, outputTokens, prefix }) => [
      promptTokens,
      outputTokens,
      16 * prefix.length,
    ]),
  ).toEqual([
    [3, 30, 0],
    [34, 2, 0],
  ])
  expect(document.load).toMatchObject({
    payload: { file: join(folder, 'share.json'), count: 2048 },
  })
  expect(document.load).not.toMatchObject({ payload: { inputTokens: expect.anything() } })
  expect(
    load('{file: share.json, turns: 1, conversations: 4, ignoreEos: false}').load.payload,
  ).toMatchObject({
    kind: 'generated',
    prompts: { turns: { kind: 'fixed', tokens: 1 }, conversations: 4, ignoreEos: false },
  })
  for (const key of ['inputTokens', 'outputTokens', 'sharedPrefixTokens'])
    expect(() => load(`{file: share.json, ${key}: 9}`)).toThrow(
      `both ${key} and recorded conversations`,
    )
})

test("ShareGPT's conversations are no lengths", () => {
  const path = write(
    'share.json',
    '[{"id": "a", "conversations": [{"from": "human", "value": "hi"}]}]',
  )
  expect(() => readLengths(path, 'share.json')).toThrow(
    'share.json is JSON, but not a list of lengths',
  )
})
