/**
 * A server that takes values while it runs is started once for all of a search's trials: by the
 * command line, as built.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { CliBox, recommends } from './testing/run-cli.ts'

const box = new CliBox()
afterAll(() => box.dispose())

const server = fileURLToPath(new URL('./testing/limited.mjs', import.meta.url))
const set =
  "fetch('http://' + process.argv[1] + '/limit/' + process.argv[2], { method: 'PUT' }).then((answer) => process.exit(answer.ok ? 0 : 1))"

test('is started once, and each trial but the first says so', async (context) => {
  const predictor = {
    command: [process.execPath, server, '${port}', join(box.folder, 'starts')],
    reconfigure: [process.execPath, '-e', set, '${host}:${port}', '${limit}'],
    protocol: 'json',
    path: '/infer',
    healthPath: '/health',
    body: '{}',
  }
  const space = { cpuCores: [1], limit: { values: [1, 2, 4], category: 'server' } }
  writeFileSync(
    join(box.folder, 'e.yaml'),
    JSON.stringify({ model: 'm', slo: '100ms', predictor, space }),
  )
  const ran = await box.run([
    '-f',
    'e.yaml',
    '--max-trials',
    '3',
    '--trial-time',
    '1s',
    '--no-confirm',
  ])
  const { trials } = await box.stored()
  // Trials that the machine disturbed are made again, on the same server.
  expect(trials.length, ran.stderr).toBeGreaterThan(2)
  expect(readFileSync(join(box.folder, 'starts'), 'utf8').trim().split('\n')).toHaveLength(1)
  expect(ran.stderr.split('server reused, reconfigured').length - 1).toBe(trials.length - 1)
  const [first, ...others] = trials.map((trial) =>
    trial.state === 'complete' ? trial.usage?.launchSeconds : undefined,
  )
  expect(first).toBeGreaterThan(1)
  await box.skipIfDisturbed(context.skip)
  for (const seconds of others) expect(seconds).toBeLessThan(first!)
  expect(recommends, ran.stderr).toContain(ran.code)
  const [written] = /tune-results\/[^\s"]+\/deployment\.yaml/.exec(ran.stdout + ran.stderr)!
  expect(readFileSync(join(box.folder, written), 'utf8')).toMatch(
    /after each start, run .* 127\.0\.0\.1:\d+ \d/,
  )
})
