import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { CliBox } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

const tune = new WarmCli()
afterAll(() => tune.end())

let box: CliBox
beforeEach(() => {
  box = new CliBox()
  for (const [name, layers] of [
    ['mine', 6],
    ['huge', 20_000],
  ] as const) {
    mkdirSync(join(box.folder, name))
    const dimensions = {
      model_type: 'bert',
      hidden_size: 384,
      num_attention_heads: 6,
      intermediate_size: 1536,
      vocab_size: 30522,
    }
    writeFileSync(
      join(box.folder, name, 'config.json'),
      JSON.stringify({ ...dimensions, num_hidden_layers: layers }),
    )
  }
  writeFileSync(
    join(box.folder, 'gpus.yaml'),
    'Home Card: { memoryGiB: 16, bandwidthGBs: 500, peakTflops: { fp32: 20, fp16: 80 } }\n',
  )
  writeFileSync(join(box.folder, 'prices.yaml'), 'gpus: { Home Card: 0.2 }\n')
})
afterEach(() => box.dispose())

const files = [
  '--gpu-catalogue',
  'gpus.yaml',
  '--prices',
  'prices.yaml',
  '--gpus',
  'home-card',
  '--slo',
  '50ms',
]

test('a transformer of the user on a GPU of the user: tuned, and seen again', async () => {
  const tuned = await tune.run(box, [
    '--model',
    'mine/config.json',
    ...files,
    '--backend',
    'simulated',
    '--max-trials',
    '3',
    '--no-confirm',
  ])
  expect(tuned.code, tuned.stderr).toBe(0)
  expect(tuned.stderr).toMatch(/Home Card (4[5-9]|5\d) % \(from its datasheet\)/)
  const shown = await tune.run(box, ['show', '--json'])
  expect(shown.code, shown.stderr).toBe(0)
  const { best } = JSON.parse(shown.stdout)
  expect(best.configuration.gpu).toBe('Home Card')
  expect(best.label).toContain('Home Card')
  expect((await tune.run(box, ['spec'])).stdout).toContain('- NVIDIA-Home-Card\n')
})

test('a model that no GPU holds: exit 3, nothing started', async () => {
  const { code, stderr } = await tune.run(box, [
    '--model',
    'huge/config.json',
    ...files,
    '--backend',
    'simulated',
  ])
  expect(code, stderr).toBe(3)
  expect(stderr).toMatch(
    /no configuration of the search space can serve huge; the nearest is .*Home Card.*: needs \d+ MiB of GPU memory, but has \d+ MiB/,
  )
})
