import { describe, expect, test } from 'vitest'
import {
  findMissingMeasurements,
  findRowFaults,
  isInfeasible,
  listColumns,
  mergeRepeats,
  parseCellNumber,
  readConfiguration,
  resolveRateColumn,
} from './rows.ts'
import type { ReplayRow, ReplayTask } from './task.ts'

const task: ReplayTask = {
  name: 'toy',
  parameters: [
    { name: 'gpu', kind: 'categorical', values: ['T4', 'A10'] },
    { name: 'batch', kind: 'ordinal', values: [1, 2, 4] },
  ],
  price: 'dollars',
  objective: 'pricePerRequest',
  constraint: { metric: 'ms', max: 30 },
  infeasibleColumn: 'failed',
}
const row = (more: ReplayRow = {}): ReplayRow => ({
  gpu: 'T4',
  batch: 2,
  ms: 10,
  throughputRps: 100,
  dollars: 0.5,
  failed: 0,
  ...more,
})
const messages = (rows: readonly ReplayRow[], given = task) =>
  findRowFaults(given, rows).map(({ row: at, message }) => `${at}: ${message}`)

test('the columns that a task names, each once', () => {
  expect(listColumns(task)).toEqual(['gpu', 'batch', 'dollars', 'ms', 'throughputRps', 'failed'])
  expect(listColumns({ ...task, rate: 'ms', infeasibleColumn: null })).toEqual([
    'gpu',
    'batch',
    'dollars',
    'ms',
  ])
  expect([
    resolveRateColumn(task),
    resolveRateColumn({ ...task, rate: 'rps' }),
    resolveRateColumn({ ...task, objective: 'price' }),
  ]).toEqual(['throughputRps', 'rps', undefined])
  expect(readConfiguration(task, { ...row(), batch: '4' })).toEqual({ gpu: 'T4', batch: 4 })
})

test('a cell as a number', () => {
  expect(['1.5', ' 2 ', 3, '1e3'].map(parseCellNumber)).toEqual([1.5, 2, 3, 1000])
  expect(['-.5', '+2.', '1E-3'].map(parseCellNumber)).toEqual([-0.5, 2, 0.001])
  for (const none of [
    undefined,
    '',
    '  ',
    'fast',
    'NaN',
    'Infinity',
    '1e999',
    '0x10',
    '0b1',
    '1_000',
    '1,5',
    '5ms',
    '２',
  ])
    expect([none, parseCellNumber(none)]).toEqual([none, NaN])
})

test('infeasible rows are marked by 1, yes or true, in any case', () => {
  expect(
    [1, '1', 'yes', 'True', 0, '0', 'no', 'FALSE', ''].map((failed) =>
      isInfeasible(task, row({ failed })),
    ),
  ).toEqual([true, true, true, true, false, false, false, false, false])
  expect(isInfeasible({ ...task, infeasibleColumn: null }, row({ failed: 1 }))).toBe(false)
  expect(findMissingMeasurements(task, row({ ms: ' ', throughputRps: '' }))).toEqual([
    'ms',
    'throughputRps',
  ])
  expect([
    findMissingMeasurements(task, row({ ms: '', failed: 1 })),
    findMissingMeasurements(task, row()),
  ]).toEqual([[], []])
})

describe('faults', () => {
  test('of the table come alone', () => {
    expect(messages([])).toEqual(['undefined: it has no rows'])
    expect(messages([{ gpu: 'T4', batch: 9 }])).toEqual(
      ['dollars', 'ms', 'throughputRps', 'failed'].map(
        (c) => `undefined: no column '${c}' (it has gpu, batch)`,
      ),
    )
  })
  test.each([
    [{}, []],
    [{ batch: '2' }, []],
    [{ batch: 'two' }, ["batch is 'two', not a number"]],
    [{ batch: 3 }, ["batch is '3', none of the task's values 1, 2, 4"]],
    [{ gpu: 'H100' }, ["gpu is 'H100', none of the task's values T4, A10"]],
    [{ dollars: 0 }, ['dollars is 0: a price per hour is above 0']],
    [{ dollars: '' }, ["dollars is '', not a number"]],
    [{ dollars: 'Infinity' }, ["dollars is 'Infinity', not a number"]],
    [{ failed: 'maybe' }, ["failed is 'maybe', neither 0 nor 1"]],
    [{ ms: 0 }, []],
    [{ ms: -1 }, ['ms is -1: a constrained metric is not negative']],
    [{ throughputRps: '1e60', ms: '1e-60' }, []],
    [{ throughputRps: '2e60' }, ['throughputRps is 2e60: values lie between 1e-60 and 1e+60']],
    [{ throughputRps: '5e-61' }, ['throughputRps is 5e-61: values lie between 1e-60 and 1e+60']],
    [
      { throughputRps: 0 },
      [
        'throughputRps is 0: a rate is above 0; mark a configuration that could not serve with 1 in an infeasibleColumn',
      ],
    ],
    [{ failed: 1, ms: '', throughputRps: 'none' }, []],
    [{ failed: 1, dollars: -1 }, ['dollars is -1: a price per hour is above 0']],
    [{ batch: 3, ms: 'x', throughputRps: 0 }, 3],
  ] as const)('of a row: %j', (more, faults) => {
    const found = messages([row(), row(more)])
    if (typeof faults === 'number') expect(found).toHaveLength(faults)
    else expect(found).toEqual(faults.map((fault) => `1: ${fault}`))
  })
  test('an objective without a rate needs no rate column; of many values twelve are listed', () => {
    const priced: ReplayTask = { ...task, objective: 'price', infeasibleColumn: undefined }
    expect(messages([{ gpu: 'T4', batch: 1, ms: 3, dollars: 1 }], priced)).toEqual([])
    const many = (count: number): ReplayTask => ({
      ...task,
      parameters: [
        { name: 'batch', kind: 'ordinal', values: Array.from({ length: count }, (_, i) => i) },
      ],
    })
    expect(messages([row({ batch: 99 })], many(12))).toEqual([
      "0: batch is '99', none of the task's values 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
    ])
    expect(messages([row({ batch: 99 })], many(13))[0]).toMatch(/10, 11, \.\.\.$/)
  })
  test('a parameter value may be as large as a measurement, and no larger', () => {
    const great: ReplayTask = {
      ...task,
      parameters: [{ name: 'batch', kind: 'ordinal', values: [1e60, 2e60] }],
    }
    expect(
      messages([row({ batch: '1e60' }), row({ batch: '-1e60' }), row({ batch: '2e60' })], great),
    ).toEqual([
      "1: batch is '-1e60', none of the task's values 1e+60, 2e+60",
      '2: batch is 2e60: values lie between 1e-60 and 1e+60',
    ])
  })
})

describe('repeats', () => {
  const merged = (rows: readonly ReplayRow[], given = task) => mergeRepeats(given, rows)

  test('are averaged; other configurations stay as they are, in order', () => {
    const other = row({ batch: 4 })
    expect(
      merged([
        row(),
        other,
        row({ ms: 12, throughputRps: 110 }),
        row({ ms: 11, throughputRps: 105 }),
      ]),
    ).toEqual({
      rows: [row({ ms: 11, throughputRps: 105 }), other],
      averaged: [[0, 2, 3]],
      contradictions: [],
    })
    expect(merged([row(), other])).toEqual({
      rows: [row(), other],
      averaged: [],
      contradictions: [],
    })
  })
  test('that all failed stay failed', () => {
    const failed = row({ failed: 1, ms: '', throughputRps: '' })
    expect(merged([failed, { ...failed }])).toEqual({
      rows: [failed],
      averaged: [[0, 1]],
      contradictions: [],
    })
  })
  test('more than three standard deviations of a difference apart contradict, and the worst counts', () => {
    // exp(3 √2 · 0.1) = 1.528; of a stated noise of 5 %, 1.236.
    expect(merged([row(), row({ ms: 15.2 })]).contradictions).toEqual([])
    expect(merged([row(), row({ ms: 15.4, throughputRps: 90 })])).toEqual({
      rows: [row({ ms: 15.4, throughputRps: 90 })],
      averaged: [],
      contradictions: [{ rows: [0, 1], message: 'ms is 10 and 15.4' }],
    })
    expect(merged([row({ throughputRps: 60 }), row({ ms: 11 })]).contradictions).toEqual([
      { rows: [0, 1], message: 'throughputRps is 60 and 100' },
    ])
    const stated = { ...task, relativeNoise: 0.05 }
    expect(
      [12.3, 12.4].map((ms) => merged([row(), row({ ms })], stated).contradictions.length),
    ).toEqual([0, 1])
  })
  test('far below the limit make no difference', () => {
    expect(merged([row({ ms: 0 }), row({ ms: 4.5 })]).contradictions).toEqual([])
    expect(merged([row({ ms: 0 }), row({ ms: 4.7 })]).contradictions).toEqual([
      { rows: [0, 1], message: 'ms is 0 and 4.7' },
    ])
  })
  test('with a failure count as failed; with two prices the higher counts', () => {
    const failed = row({ failed: 1, ms: '', throughputRps: '' })
    expect(merged([row(), row({ ms: 20 }), failed])).toEqual({
      rows: [failed],
      averaged: [],
      contradictions: [
        { rows: [0, 1, 2], message: 'it served and could not serve and ms is 10 and 20' },
      ],
    })
    expect(merged([row(), { ...failed, dollars: 0.7 }]).rows).toEqual([{ ...failed, dollars: 0.7 }])
    expect(merged([row({ dollars: 0.7 }), row()])).toEqual({
      rows: [row({ dollars: 0.7 })],
      averaged: [],
      contradictions: [{ rows: [0, 1], message: 'dollars is 0.5 and 0.7' }],
    })
  })
})
