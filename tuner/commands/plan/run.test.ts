/** `tune plan` on prices of instances that are sold. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliBox } from '../../testing/run-cli.ts'
import { WarmCli } from '../../testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
const fixture = (name: string) =>
  fileURLToPath(new URL(`../../../reports/imports/fixtures/${name}`, import.meta.url))
const planned = async (...words: string[]) => {
  const { code, stdout, stderr } = await tune.run(box, [
    'plan',
    '--demand',
    '800',
    '--json',
    ...words,
  ])
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return JSON.parse(stdout).plan?.units[0] ?? JSON.parse(stdout).units[0]
}

beforeAll(async () => {
  // 420 req/s on a T4 with four cores.
  const files = [fixture('metrics-model-inference.csv'), fixture('metrics-model-gpu.csv')]
  const on = ['--slo', '30ms', '--on', 'gpu=T4,cpuCores=4', '--prices', 'aws-instances']
  expect((await tune.run(box, ['import', ...files, ...on])).code).toBe(0)
})
afterAll(async () => {
  await box.end()
  await tune.end()
})

test("it pays by the experiment's own prices, whole instances: three g4dn.xlarge for a month", async () => {
  expect(JSON.stringify(await planned())).toContain(`${Math.round(3 * 0.526 * 720 * 100) / 100}`)
})

test('--prices of what is stored takes a provider by name', async () => {
  expect(JSON.stringify(await planned('--prices', 'aws-reserved-instances'))).toContain(
    `${Math.round(3 * 0.331 * 720 * 100) / 100}`,
  )
  const shown = await tune.run(box, ['show', '--prices', 'gcp'])
  expect(shown.stderr).not.toContain('cannot be read')
})

const mixOf = async (...words: string[]) => {
  const { code, stdout, stderr } = await tune.run(box, [
    'plan',
    '--demand',
    '800',
    '--json',
    ...words,
  ])
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout).mix
}

test('committed prices of the list are known: three g4dn.xlarge that are needed all the time are committed to', async () => {
  const [first] = (await mixOf()).rows
  expect(first).toMatchObject({
    offer: { instance: 'g4dn.xlarge', onDemandPerHour: 0.526, committedPerHour: 0.331 },
    mix: { committed: 3 },
  })
  expect(first.perMonth.all).toBeCloseTo(3 * 0.331 * 720, 9)
  expect(first.allOnDemandPerMonth).toBeCloseTo(3 * 0.526 * 720, 9)
})

test('spot is bought as its price, its interruptions and the zones say, and played', async () => {
  const mix = await mixOf(
    '--spot',
    '20%',
    '--interruptions',
    '20h',
    '--spot-notice',
    '2min',
    '--startup',
    '60s',
    '--node',
    '4min',
  )
  expect(mix.risk).toMatchObject({
    interruptionsPerHour: 0.05,
    outSeconds: 180,
    zones: 3,
    lostShare: 0.001,
  })
  // Three, and the two of the fullest zone.
  expect(mix.rows[0].mix.levels[0]).toMatchObject({ instances: 3, spotNeeded: 3, spot: 5 })
  expect(mix.played.lostMinutes / mix.played.minutes).toBeLessThanOrEqual(0.001)
  const share = await mixOf('--spot', '20%', '--interruptions', '10%', '--spot-share', '30%')
  expect(share.rows[0].mix.levels[0].spot).toBe(0)
  expect(share.risk.interruptionsPerHour).toBeCloseTo(-Math.log(0.9) / 720, 12)
})

test('a price file says what commitments and spot cost, of each instance or of all', async () => {
  const file = join(box.folder, 'mine.yaml')
  writeFileSync(
    file,
    'extends: aws-instances\nspotShare: 0.3\ninstances:\n  mine: {gpu: T4, vcpus: 8, memoryGiB: 32, price: 0.5, committed: 0.4, spot: 0.05}\n',
  )
  const [first] = (await mixOf('--prices', file, '--interruptions', '20h', '--zones', '1')).rows
  expect(first.offer).toEqual({
    instance: 'mine',
    replicasEach: 1,
    onDemandPerHour: 0.5,
    committedPerHour: 0.4,
    spotPerHour: 0.05,
  })
})

test.each([
  [['--spot', '35%'], '--interruptions 10%'],
  [['--interruptions', '20h'], 'no price'],
  [['--spot', '35%', '--interruptions', '100%'], 'says not when'],
  [['--spot', '0%', '--interruptions', '20h'], 'no price'],
  [['--committed', '60%', '--prices', 'aws-reserved-instances'], 'those of committed capacity'],
])('%j is refused', async (words, why) => {
  const { code, stderr } = await tune.run(box, ['plan', '--demand', '800', ...words])
  expect(code).toBe(2)
  expect(stderr).toContain(why)
})
