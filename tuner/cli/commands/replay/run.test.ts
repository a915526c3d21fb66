import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { CliBox } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const task = {
  name: 'two knobs',
  parameters: [
    { name: 'batchSize', kind: 'ordinal', values: [1, 2, 4] },
    { name: 'gpu', kind: 'categorical', values: ['T4', 'L4'] },
  ],
  price: 'pricePerHour',
  objective: 'pricePerRequest',
  constraint: { metric: 'latencyMs', max: 50 },
  infeasibleColumn: 'infeasible',
}
// Cheapest per request within 50 ms: L4, batch 2 (0.7 / 3600 / 200).
const table = `batchSize,gpu,latencyMs,throughputRps,pricePerHour,infeasible
1,T4,20,50,0.35,0
2,T4,40,70,0.35,0
4,T4,80,90,0.35,0
1,L4,10,120,0.7,0
2,L4,20,200,0.7,0
4,L4,,,0.7,1
`

const tune = new WarmCli()
afterAll(() => tune.end())

describe('tune replay', () => {
  const box = new CliBox()
  afterAll(() => box.dispose())
  writeFileSync(join(box.folder, 'task.json'), JSON.stringify(task))
  writeFileSync(join(box.folder, 'runs.csv'), table)

  test('recommends the cheapest recorded configuration within the constraint', async () => {
    const { code, stdout } = await tune.run(box, [
      'replay',
      'runs.csv',
      '--task',
      'task.json',
      '--sampler',
      'grid',
      '--json',
    ])
    expect(code).toBe(0)
    const document = JSON.parse(stdout)
    expect(document.recommended.configuration).toEqual({ batchSize: 2, gpu: 'L4' })
    expect(document.recommended.cost).toBeCloseTo((0.7 / 3600 / 200) * 1e6, 6)
    expect(document.regret).toBe(0)
  })

  test('nothing within the constraint: exit 3', async () => {
    writeFileSync(
      join(box.folder, 'tight.json'),
      JSON.stringify({ ...task, constraint: { metric: 'latencyMs', max: 1 } }),
    )
    const { code, stdout } = await tune.run(box, ['replay', 'runs.csv', '--task', 'tight.json'])
    expect(code).toBe(3)
    expect(stdout).toContain('latencyMs <= 1')
  })

  test.each([
    [
      'a column that is missing',
      table.replace('latencyMs', 'latency'),
      task,
      /runs-bad\.csv: no column 'latencyMs'/,
    ],
    [
      'a cell that is no number',
      table.replace('2,T4,40', '2,T4,slow'),
      task,
      /runs-bad\.csv:3: latencyMs is 'slow', not a number/,
    ],
    ['a task without a price', table, { ...task, price: undefined }, /task-bad\.json:\d+: price/],
  ])('%s: exit 2 with the place', async (_what, csv, badTask, message) => {
    writeFileSync(join(box.folder, 'runs-bad.csv'), csv)
    writeFileSync(join(box.folder, 'task-bad.json'), JSON.stringify(badTask, null, 1))
    const { code, stderr } = await tune.run(box, [
      'replay',
      'runs-bad.csv',
      '--task',
      'task-bad.json',
    ])
    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })

  test('what is wrong with rows is told all at once, each with its line, and capped', async () => {
    const rows = Array.from(
      { length: 300 },
      (_, i) => `${2 ** (i % 3)},T4,${i % 2 ? -20 : 20},0,-1,2`,
    )
    writeFileSync(join(box.folder, 'all-bad.csv'), `${table.split('\n')[0]}\n${rows.join('\n')}\n`)
    const { code, stdout, stderr } = await tune.run(box, [
      'replay',
      'all-bad.csv',
      '--task',
      'task.json',
    ])
    expect(code).toBe(2)
    expect(stdout).toBe('')
    const lines = stderr.trim().split('\n')
    expect(lines).toHaveLength(21)
    expect(lines.slice(0, 3)).toEqual([
      'all-bad.csv:2: pricePerHour is -1: a price per hour is above 0',
      "all-bad.csv:2: infeasible is '2', neither 0 nor 1",
      'all-bad.csv:2: throughputRps is 0: a rate is above 0; mark a configuration that could not serve with 1 in an infeasibleColumn',
    ])
    expect(lines.at(-1)).toMatch(/^all-bad\.csv: \d+ more like these$/)
  })

  test('noise, seeds and random search beside it, in words and as JSON', async () => {
    const args = ['replay', 'runs.csv', '--task', 'task.json', '--noise', '2%', '--seeds', '3']
    const { code, stdout } = await tune.run(box, args)
    expect(code).toBe(0)
    expect(stdout).toContain('Noise of 2 % was added to every measurement')
    expect(stdout).toMatch(
      /Within 5 % of the cheapest, at most 40 look-ups: the search after .*median.*random search after .*the same 3 seeds/,
    )
    expect(stdout).toContain('It is the cheapest of the table.')
    const document = JSON.parse((await tune.run(box, [...args, '--json'])).stdout)
    expect(document.within5Percent).toMatchObject({
      seeds: 3,
      search: { reached: 1 },
      random: { reached: 1 },
    })
    expect(document.runs.map((run: { seed: number }) => run.seed)).toEqual([1, 2, 3])
    expect(document.noise).toBe(0.02)
    expect(document.trials[0].constraint.value).not.toBeCloseTo(
      Math.round(document.trials[0].constraint.value),
      9,
    )
  })

  test('a task may name its table, and what it counted otherwise is told', async () => {
    writeFileSync(
      join(box.folder, 'counting.json'),
      JSON.stringify({ ...task, table: 'runs.csv', feasible: 7, configurations: 6 }),
    )
    const { code, stderr } = await tune.run(box, ['replay', '--task', 'counting.json'])
    expect(code).toBe(0)
    expect(stderr).toBe('counting.json: feasible is 7, but the table has 4\n')
  })

  test("reads other tools' results with an SLO in place of a task", async () => {
    const header =
      'Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Throughput (infer/sec),p99 Latency (ms)'
    writeFileSync(
      join(box.folder, 'metrics.csv'),
      `${header}\nm,1,8,c0,1:GPU,8,300,20\nm,1,8,c1,2:GPU,8,420,22\nm,1,8,c2,2:GPU,16,500,41\n`,
    )
    const { code, stdout } = await tune.run(box, [
      'replay',
      'metrics.csv',
      '--slo',
      '30ms',
      '--price-per-hour',
      '$0.5',
      '--json',
    ])
    expect(code).toBe(0)
    const { recommended } = JSON.parse(stdout)
    expect(recommended.configuration).toEqual({ maxBatchSize: 8, instances: 2 })
    expect(recommended.cost).toBeCloseTo((0.5 / 3600 / 420) * 1e6, 6)
    expect(
      JSON.parse((await tune.run(box, ['replay', 'metrics.csv', '--slo', '30ms', '--json'])).stdout)
        .recommended.configuration,
    ).toEqual({
      maxBatchSize: 8,
      instances: 2,
    })
  })

  test.each([
    ['no file', [], /no table/],
    [
      "a table of one's own without a task",
      ['runs.csv'],
      /not a result of Model Analyzer.*\n.*--task/,
    ],
    ['a table of no tool', ['runs.csv', '--slo', '30ms'], /not a result of Model Analyzer/],
    ['several limits', ['runs.csv', '--slo', 'ttft<1s tpot<30ms'], /several limits/],
    [
      'an SLO beside a task',
      ['runs.csv', '--task', 'task.json', '--slo', '30ms'],
      /a task has its own/,
    ],
    ['two tables of one task', ['runs.csv', 'runs.csv', '--task', 'task.json'], /one table/],
    [
      'a sampler that is none',
      ['runs.csv', '--task', 'task.json', '--sampler', 'best'],
      /'best' is not a sampler/,
    ],
    ['noise that is none', ['runs.csv', '--task', 'task.json', '--noise', 'much'], /much/],
  ])('%s: exit 2', async (_what, args, message) => {
    expect(await tune.run(box, ['replay', ...args])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(message),
    })
  })
})
