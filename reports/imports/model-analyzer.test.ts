import { describe, expect, test } from 'vitest'
import { recordedTable } from '../../search/replay-table.ts'
import { importTritonTable } from './model-analyzer.ts'

const options = { percentile: 0.99, limitMs: 30, pricePerHour: 0.5 }

describe("Model Analyzer's table", () => {
  const header =
    'Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,Throughput (infer/sec),p99 Latency (ms)'
  const table = [
    header,
    'bert,1,8,bert_config_0,1:GPU,8,Yes,300.0,20.0',
    'bert,1,16,bert_config_0,1:GPU,8,Yes,350.0,29.0',
    'bert,1,32,bert_config_0,1:GPU,8,No,360.0,70.0',
    'bert,1,8,bert_config_1,2:GPU,8,Yes,420.0,22.0',
    'bert,1,8,bert_config_2,2:GPU,16,No,500.0,41.0',
    'bert,1,4,bert_config_2,2:GPU,16,No,250.0,33.0',
  ].join('\n')

  test('becomes a row per configuration: the most it serves within the limit, else its fastest', () => {
    const { task, rows, tool } = importTritonTable(table, options)!
    expect(tool).toBe('Model Analyzer')
    expect(task.parameters).toEqual([
      { kind: 'ordinal', name: 'maxBatchSize', values: [8, 16] },
      { kind: 'ordinal', name: 'instances', values: [1, 2] },
    ])
    expect(rows).toEqual([
      { maxBatchSize: 8, instances: 1, ratePerSecond: 350, p99Ms: 29, pricePerHour: 0.5 },
      { maxBatchSize: 8, instances: 2, ratePerSecond: 420, p99Ms: 22, pricePerHour: 0.5 },
      { maxBatchSize: 16, instances: 2, ratePerSecond: 250, p99Ms: 33, pricePerHour: 0.5 },
    ])
    expect(recordedTable(task, rows).configurations).toHaveLength(3)
  })

  test('keeps the path where nothing else tells configurations apart', () => {
    const { task } = importTritonTable(`${header}\nm,1,1,default,1:GPU,8,Yes,10,5\nm,1,1,tensorrt,1:GPU,8,Yes,20,5`, options)!
    expect(task.parameters).toEqual([{ kind: 'categorical', name: 'configuration', values: ['default', 'tensorrt'] }])
  })

  test('without the percentile asked for, or with a broken cell, is refused by name', () => {
    expect(() => importTritonTable(table, { ...options, percentile: 0.95 })).toThrow(/'p95 Latency \(ms\)'/)
    expect(() => importTritonTable(`${table}\nm,1,1,x,1:GPU,8,Yes,fast,5`, options)).toThrow(/row 8: 'fast' in column 'Throughput/)
    expect(() => importTritonTable(header, options)).toThrow(/no rows/)
  })
})

test("perf_analyzer's table is a configuration per load, microseconds as milliseconds", () => {
  const header =
    'Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency'
  const { task, rows, tool } = importTritonTable(
    `${header}\n1,69.2,225,2148,64,206,11781,19,0,13891,18795,19753,21018\n3,84.2,237,1768,21673,209,11742,17,0,35398,43984,47085,51701\n`,
    options,
  )!
  expect(tool).toBe('perf_analyzer')
  expect(task).toMatchObject({ constraint: { metric: 'p99Ms', max: 30 }, parameters: [{ name: 'concurrency', values: [1, 3] }] })
  expect(rows[0]).toEqual({ concurrency: 1, ratePerSecond: 69.2, p99Ms: 21.018, pricePerHour: 0.5 })
  expect(
    importTritonTable(`${header.replace('Concurrency', 'Request Rate')}\n50,49,1,1,1,1,1,1,1,1000,1000,1000,2000`, options)!.task
      .parameters[0],
  ).toMatchObject({ name: 'requestRate' })
})

test('a table of neither tool is left to its task', () => {
  expect(importTritonTable('batch,price\n1,2\n', options)).toBeUndefined()
  expect(importTritonTable('', options)).toBeUndefined()
})
