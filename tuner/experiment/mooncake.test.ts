import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { llmRequests } from '../backends/llm-requests.ts'
import { readLengths } from './lengths.ts'
import { loadExperiment } from './load-experiment.ts'
import { readMooncake } from './mooncake.ts'
import { readTrace } from './trace.ts'

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
  expect(readTrace(path, 't.jsonl')).toEqual({ atMs: [0, 3500] })
})

test.each([
  ['{"timestamp": 1, "input_length": 5}\n', 't.jsonl:1: output_length: '],
  ['{"timestamp": 1, "input_length": 5, "output_length": 5}\n{', 't.jsonl:2: no JSON'],
  [
    lines([
      { ...trace[0], timestamp: 5 },
      { ...trace[0], timestamp: 4 },
    ]),
    't.jsonl:2: 4 is before the line above',
  ],
  ['\n', 't.jsonl has no request with tokens on both sides'],
])('%j names its line', (text, message) => {
  expect(() => readMooncake(write('t.jsonl', text), 't.jsonl')).toThrow(message)
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
    llmRequests(load.payload).map(({ promptTokens, outputTokens, prefix }) => [
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
  expect(() => load('{turns: 2, lengths: t.jsonl}')).toThrow('turns beside recorded lengths')
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
  expect(() => readTrace(write('odd.csv', 'timestamp\n9\n5\n'), 'odd.csv')).toThrow(
    "odd.csv:3: '5' is before the line above",
  )
  expect(() => readTrace(write('odd.csv', 'timestamp\nsoon\nlater\n'), 'odd.csv')).toThrow(
    "odd.csv:2: 'soon' is no time",
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
    llmRequests(loaded.payload).map(({ promptTokens, outputTokens, prefix }) => [
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
      `${key} beside recorded conversations`,
    )
})

test("ShareGPT's conversations are no lengths", () => {
  const path = write(
    'share.json',
    '[{"id": "a", "conversations": [{"from": "human", "value": "hi"}]}]',
  )
  expect(() => readLengths(path, 'share.json')).toThrow(
    'share.json is JSON, and no list of lengths',
  )
})
