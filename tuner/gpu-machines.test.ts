/**
 * The product's commands on machines with GPUs, which stand-ins for nvidia-smi and rocm-smi tell
 * of: nothing here has run on silicon.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { amdUniqueId, gpuMachines, gpuUuid, plantGpus, sliceUuid } from './testing/gpu-machines.ts'
import { CliBox } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

const server = fileURLToPath(new URL('../trials/launchers/testing/server.mjs', import.meta.url))

const tune = new WarmCli()
afterAll(() => tune.end())

let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(() => box.end())

type MachineName = keyof typeof gpuMachines
interface Preview {
  readonly experiment: {
    readonly space: Record<string, readonly unknown[] | { readonly values: readonly unknown[] }>
    readonly constraints?: readonly string[]
  }
  readonly notices: readonly string[]
  readonly suggestions: readonly {
    readonly configuration: Record<string, string | number>
    readonly pricePerHour: number
  }[]
}

/** A server of the user's own that leaves its environment in a file, then serves. */
const ownServer = (more = '') => `
model: m
slo: 200ms
predictor:
  command: [sh, -c, 'env > "$DUMP"; exec "$0" "$@"', ${JSON.stringify(process.execPath)}, ${JSON.stringify(server)}, '--port=\${port}']
  protocol: json
  path: /predict
load: { trialTime: 1s, confirmTime: 250ms }
budget: { maxTrials: 4 }
confirm: false
${more}`

type Environment = Readonly<Record<string, string>>
const environment = (name: MachineName, of: Environment = {}) => ({
  ...plantGpus(box.folder, gpuMachines[name]),
  DUMP: join(box.folder, 'environment'),
  ...of,
})

async function preview(
  name: MachineName,
  more = '',
  yaml = ownServer(more),
  of: Environment = {},
): Promise<Preview> {
  writeFileSync(join(box.folder, 'e.yaml'), yaml)
  const { code, stdout, stderr } = await tune.run(
    box,
    ['-f', 'e.yaml', '--dry-run', '--json'],
    environment(name, of),
  )
  expect(stderr + stdout.slice(0, code === 0 ? 0 : 2000)).toBe('')
  return JSON.parse(stdout) as Preview
}

async function refusal(name: MachineName, more = ''): Promise<string> {
  writeFileSync(join(box.folder, 'e.yaml'), ownServer(more))
  const { code, stderr } = await tune.run(box, ['-f', 'e.yaml', '--dry-run'], environment(name))
  expect(code).toBe(2)
  return stderr
}

/**
 * The environment in which the first trial's predictor was started; it ends at once, for nothing is
 * measured here.
 */
async function started(
  name: MachineName,
  more = '',
  of: Environment = {},
): Promise<Record<string, string>> {
  writeFileSync(
    join(box.folder, 'e.yaml'),
    ownServer(more).replace('exec "$0" "$@"', 'exit 3').replace('maxTrials: 4', 'maxTrials: 1'),
  )
  await tune.run(box, ['-f', 'e.yaml', '--plain'], environment(name, of))
  const lines = readFileSync(join(box.folder, 'environment'), 'utf8').split('\n')
  return Object.fromEntries(
    lines
      .filter((line) => /^(CUDA|HIP)_/.test(line))
      .map((line) => line.split(/=(.*)/s) as [string, string]),
  )
}

/** Values of the parameters that choose or divide a GPU. */
const spaceOf = ({ experiment }: Preview) =>
  Object.fromEntries(
    Object.entries(experiment.space)
      .filter(([name]) => /gpu|mig/i.test(name))
      .map(([name, entry]) => [
        name,
        Array.isArray(entry) ? entry : (entry as { values: unknown[] }).values,
      ]),
  )
const text = ({ notices }: Preview) => notices.join('\n')
const cpuPerHour = (cores: number) => cores * 0.031611 + 4 * 0.004237

describe('a server of the user’s own has the GPUs that are there', () => {
  const wholes: readonly [MachineName, string][] = [
    ['a10', 'A10'],
    ['twoT4', 'T4'],
    ['eightH100', 'H100'],
  ]
  test.each(wholes)(
    '%s: whole %s alone, at its price, and what would allow shares',
    async (name, gpu) => {
      const seen = await preview(name)
      expect(spaceOf(seen)).toEqual({ gpu: [gpu] })
      expect(text(seen)).toMatch(
        /Only whole GPUs are tuned, because nothing on this machine enforces a share of .*MPS daemon.*gpuMemoryFraction/,
      )
      for (const { configuration, pricePerHour } of seen.suggestions)
        expect(pricePerHour - cpuPerHour(Number(configuration.cpuCores))).toBeGreaterThan(0.3)
    },
  )

  test('MIG slices by their names, each for its part of the price, no trial without one', async () => {
    const seen = await preview('mig', 'space: { cpuCores: 1 }')
    expect(spaceOf(seen)).toEqual({
      gpu: ['A100-40GB'],
      migProfile: ['3g.20gb', '2g.10gb', '1g.5gb'],
    })
    const price = new Map(
      seen.suggestions.map(({ configuration, pricePerHour }) => [
        configuration.migProfile,
        pricePerHour - cpuPerHour(1),
      ]),
    )
    expect(price.get('3g.20gb')! / price.get('1g.5gb')!).toBeCloseTo(7 / 2, 6)
    expect(price.get('2g.10gb')! / price.get('1g.5gb')!).toBeCloseTo(2, 6)
  })

  test('slices with engines beside, as the driver names them; one GPU of a replica, and no second slice', async () => {
    expect(spaceOf(await preview('migEngines', 'space: { gpus: [1] }'))).toMatchObject({
      migProfile: ['1g.20gb', '1g.10gb+me'],
    })
    expect(await refusal('migEngines', 'space: { gpus: [1, 2] }')).toContain(
      'gpus: 2 GPUs per replica, but this machine has 1',
    )
  })

  test('slices beside whole GPUs of the same model and of another: only what is there together', async () => {
    const seen = await preview('a100BesideMig', 'space: { cpuCores: 1 }')
    expect(spaceOf(seen)).toEqual({ gpu: ['A100-40GB', 'T4'], migProfile: ['none', '1g.5gb'] })
    expect(seen.experiment.constraints).toEqual(["not (gpu == 'T4' and migProfile == '1g.5gb')"])
    expect(
      seen.suggestions
        .map(({ configuration }) => `${configuration.gpu} ${configuration.migProfile}`)
        .sort(),
    ).toEqual(['A100-40GB 1g.5gb', 'A100-40GB none', 'T4 none'])
  })

  const priced: readonly [MachineName, string][] = [
    ['h200nvlHalfSetUp', 'H200-NVL'],
    ['mi250', 'MI250-GCD'],
    ['w7900', 'W7900'],
    ['quadro', 'RTX-4000'],
  ]
  test.each(priced)('%s: whole %s alone, at the price that a file gives', async (name, gpu) => {
    writeFileSync(join(box.folder, 'p.yaml'), `gpus: { ${gpu}: 3 }`)
    const seen = await preview(name, 'prices: p.yaml')
    expect(spaceOf(seen)).toEqual({ gpu: [gpu] })
    for (const { configuration, pricePerHour } of seen.suggestions)
      expect(pricePerHour - cpuPerHour(Number(configuration.cpuCores))).toBeCloseTo(3, 6)
  })

  test('eight of one model, four of them cut in different ways: every slice that is there, and the one that has none', async () => {
    const seen = await preview('mixedMig', 'space: { cpuCores: 1 }')
    const profiles = ['none', '7g.80gb', '3g.40gb', '2g.20gb', '1c.2g.20gb', '1g.10gb+me']
    expect(spaceOf(seen)).toEqual({ gpu: ['A100-80GB'], migProfile: profiles })
    const priceOf = async (profile: string) => {
      const { suggestions } = await preview(
        'mixedMig',
        `space: { cpuCores: 1 }\npin: { migProfile: ${profile} }`,
      )
      return suggestions[0]!.pricePerHour - cpuPerHour(1)
    }
    const whole = await priceOf('none')
    for (const [profile, part] of [
      ['7g.80gb', 1],
      ['3g.40gb', 1 / 2],
      ['1g.10gb+me', 1 / 7],
    ] as const)
      expect((await priceOf(profile)) / whole).toBeCloseTo(part, 6)
    expect(text(seen)).toMatch(/\(GPU 3\) is in MIG mode without a slice: .*-cgi 1g\.10gb -C/)
    expect(spaceOf(await preview('b200Mig'))).toMatchObject({
      migProfile: ['3g.90gb', '2g.45gb', '1g.23gb', '1g.23gb+me'],
    })
  })

  test('a slice of which the catalogue knows no profile is left out and said; alone, it is refused', async () => {
    writeFileSync(join(box.folder, 'p.yaml'), 'gpus: { GB200: 3, GB300: 4 }')
    const seen = await preview('gb200Sliced', 'prices: p.yaml')
    expect(spaceOf(seen)).toEqual({ gpu: ['GB200'], migProfile: ['3g.95gb', '1g.23gb'] })
    expect(text(seen)).toContain(
      'MIG 2g.61gb of GB200 is not used, because tune does not know this profile',
    )
    expect(spaceOf(await preview('gb200Mig', 'prices: p.yaml'))).toEqual({
      gpu: ['GB200'],
      migProfile: ['7g.189gb'],
    })
    expect(await refusal('gb300Sliced', 'prices: p.yaml')).toContain(
      'migProfile: none of GB300 has the profile 3g.126gb',
    )
  })

  test('two models in one box', async () => {
    expect(spaceOf(await preview('t4BesideA100'))).toEqual({ gpu: ['T4', 'A100-40GB'] })
  })

  test('one that fell off the bus is said, and the others are used', async () => {
    const seen = await preview('lostGpu')
    expect(spaceOf(seen)).toEqual({ gpu: ['A10'] })
    expect(text(seen)).toContain(
      'GPU not used: Unable to determine the device handle for GPU 0000:0B:00.0',
    )
  })

  test.each<[MachineName, Environment, object, RegExp]>([
    [
      't4BesideA100',
      { CUDA_VISIBLE_DEVICES: '1' },
      { gpu: ['A100-40GB'] },
      /CUDA_VISIBLE_DEVICES='1' leaves 1 of 2 GPUs; GPUs are numbered as in nvidia-smi/,
    ],
    ['t4BesideA100', { CUDA_VISIBLE_DEVICES: gpuUuid(0) }, { gpu: ['T4'] }, /leaves 1 of 2 GPUs$/m],
    [
      'mig',
      { CUDA_VISIBLE_DEVICES: sliceUuid(0, 1) },
      { gpu: ['A100-40GB'], migProfile: ['2g.10gb'] },
      /leaves 1 of 4 GPUs/,
    ],
    [
      'a10',
      { CUDA_VISIBLE_DEVICES: '' },
      {},
      /GPU not used: CUDA_VISIBLE_DEVICES='' leaves 0 of 1 GPUs/,
    ],
  ])('%s, of which %j gives a part to us', async (name, of, space, notice) => {
    const seen = await preview(name, '', undefined, of)
    expect(spaceOf(seen)).toEqual(space)
    expect(text(seen)).toMatch(notice)
  })

  test('a predictor that names a GPU of its own is refused: the trial’s would be priced, and another used', async () => {
    const named = 'predictor:\n  env: { CUDA_VISIBLE_DEVICES: "1" }\n'
    writeFileSync(join(box.folder, 'e.yaml'), ownServer().replace('predictor:\n', named))
    const { code, stderr } = await tune.run(
      box,
      ['-f', 'e.yaml', '--dry-run'],
      environment('twoT4'),
    )
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(
        /CUDA_VISIBLE_DEVICES: tune assigns the GPU of each trial.*\n +hint: .*CUDA_VISIBLE_DEVICES=1 tune/,
      ),
    ])
    const onCpu = await tune.run(
      box,
      ['-f', 'e.yaml', '--dry-run', '--devices', 'cpu'],
      environment('twoT4'),
    )
    expect(onCpu.code).toBe(0)
  })

  test('shares where MPS enforces them', async () => {
    expect(spaceOf(await preview('mps'))).toEqual({
      gpu: ['A10'],
      gpuMemoryPercent: [10, 25, 50, 100],
    })
  })

  test('shares where the server is told its own, and that they bound memory alone', async () => {
    const told = ownServer().replace(
      "'--port=${port}'",
      "'--port=${port}', '--memory=${gpuMemoryFraction}'",
    )
    const seen = await preview('a10', '', told)
    expect(spaceOf(seen)).toEqual({ gpu: ['A10'], gpuMemoryPercent: [10, 25, 50, 100] })
    expect(text(seen)).toContain('limit only its memory')
    const named = await preview(
      'a10',
      'space: { gpuMemoryPercent: { values: [50, 100], category: env } }',
    )
    expect(spaceOf(named)).toEqual({ gpu: ['A10'], gpuMemoryPercent: [50, 100] })
  })

  test('a share that nothing enforces is refused, with what would', async () => {
    expect(await refusal('a10', 'space: { gpuMemoryPercent: [25, 100] }')).toMatch(
      /gpuMemoryPercent: nothing on this machine enforces a share of a GPU\n +hint: an MPS daemon/,
    )
    expect(await refusal('mig', 'space: { gpuMemoryPercent: [25] }')).toMatch(
      /hint: use its MIG slices by their names: .*1g\.5gb/,
    )
  })

  test('an AMD GPU goes by the catalogue, and its price is asked for where the book has none', async () => {
    writeFileSync(join(box.folder, 'p.yaml'), 'gpus: { MI300X: 4 }')
    const seen = await preview('mi300x', 'prices: p.yaml')
    expect(spaceOf(seen)).toEqual({ gpu: ['MI300X'] })
    expect(text(seen)).toMatch(/Only whole GPUs are tuned.*gpuMemoryFraction/)
    expect(text(seen)).not.toContain('MPS')
    expect(await refusal('mi300x')).toContain('--provider azure has the MI300X')
    expect(await refusal('a10BesideAmd')).toContain('or leave the GPU out: --gpus A10')
  })

  test('a GPU that no catalogue has: how to describe it', async () => {
    expect(await refusal('unknown')).toMatch(
      /GPU 'NVIDIA Zeta 9000' is not in the catalogue\n.*--gpu-catalogue FILE.*--prices FILE.*--devices cpu/s,
    )
    writeFileSync(
      join(box.folder, 'gpus.yaml'),
      'NVIDIA Zeta 9000: { memoryGiB: 48, bandwidthGBs: 900, peakTflops: { fp32: 40 } }',
    )
    writeFileSync(join(box.folder, 'p.yaml'), 'gpus: { NVIDIA Zeta 9000: 2 }')
    const seen = await preview('unknown', 'gpuCatalogue: gpus.yaml\nprices: p.yaml')
    expect(spaceOf(seen)).toEqual({ gpu: ['NVIDIA Zeta 9000'] })
  })

  test('its name and memory as the driver tells them; beside one that is known it is left out, and that is said', async () => {
    expect(await refusal('unknown')).toContain("'NVIDIA Zeta 9000': {memoryGiB: 48,")
    expect(await refusal('w7700')).toContain("'Radeon Pro W7700': {memoryGiB: 16,")
    const seen = await preview('a10BesideUnknown')
    expect(spaceOf(seen)).toEqual({ gpu: ['A10'] })
    expect(text(seen)).toMatch(/NVIDIA Zeta 9000 is not used, because it is not in the catalogue/)
    expect(text(await preview('a10BesideUnknown', 'space: { gpu: A10 }'))).not.toContain('Zeta')
  })

  test('a price that is missing: where to give it', async () => {
    expect(await refusal('rtx5090')).toMatch(
      /no price for the GPU RTX-5090\n +hint: it has .*; add one with --prices FILE/,
    )
  })

  test.each<[MachineName, RegExp]>([
    [
      'migHalfSetUp',
      /A100-SXM4-40GB \(GPU 0\) is in MIG mode without a slice: nothing can run on it \(create a slice: nvidia-smi mig -i 0 -cgi 1g\.5gb -C/,
    ],
    [
      'noDriver',
      /GPU not used: nvidia-smi failed: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver/,
    ],
  ])('%s: no GPU can be had, and the reason', async (name, reason) => {
    const seen = await preview(name)
    expect(spaceOf(seen)).toEqual({})
    expect(text(seen)).toMatch(reason)
  })

  test.each<[MachineName, RegExp]>([
    ['filled', /A10 \(GPU 0\): 21000 of 23028 MiB are in use by other processes/],
    ['exclusive', /A10 \(GPU 0\) is in exclusive mode: a server with several processes fails/],
    ['eccErrors', /A10 \(GPU 0\): 3 uncorrected memory errors since its driver was loaded/],
  ])('%s: said before anything else', async (name, warning) => {
    expect((await preview(name)).notices[1]).toMatch(warning)
  })

  test('devices: cpu hides them, and nothing is said of them', async () => {
    const seen = await preview('a10', 'devices: cpu')
    expect(spaceOf(seen)).toEqual({})
    expect(text(seen)).not.toContain('A10')
  })

  test('more GPUs of a replica than there are', async () => {
    expect(await refusal('twoT4', 'space: { gpus: [1, 4] }')).toContain(
      'gpus: 4 GPUs per replica, but this machine has 2',
    )
  })
})

describe('what the started process sees', () => {
  const first = gpuUuid(0)
  test.each<[MachineName, string, Record<string, string>]>([
    ['a10', '', { CUDA_VISIBLE_DEVICES: first }],
    ['twoT4', '', { CUDA_VISIBLE_DEVICES: first }],
    ['mig', 'pin: { migProfile: 1g.5gb }', { CUDA_VISIBLE_DEVICES: sliceUuid(0, 2) }],
    ['eightH100', 'pin: { gpus: 2 }', { CUDA_VISIBLE_DEVICES: `${first},${gpuUuid(1)}` }],
    [
      'mps',
      'pin: { gpuMemoryPercent: 25 }',
      {
        CUDA_VISIBLE_DEVICES: first,
        CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: '0=5760M',
        CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: '25',
      },
    ],
    ['mi300x', 'prices: p.yaml', { HIP_VISIBLE_DEVICES: '0' }],
    ['a10', 'devices: cpu', { CUDA_VISIBLE_DEVICES: '' }],
    ['noDriver', '', {}],
    ['mi250', 'prices: p.yaml\npin: { gpus: 2 }', { HIP_VISIBLE_DEVICES: '0,1' }],
    ['jetson', 'prices: o.yaml\ngpuCatalogue: g.yaml', { CUDA_VISIBLE_DEVICES: '0' }],
  ])('%s %s', async (name, more, expected) => {
    writeFileSync(join(box.folder, 'p.yaml'), 'gpus: { MI300X: 4, MI250-GCD: 1 }')
    writeFileSync(join(box.folder, 'o.yaml'), 'gpus: { Orin (nvgpu): 0.1 }')
    writeFileSync(
      join(box.folder, 'g.yaml'),
      'Orin (nvgpu): { memoryGiB: 32, bandwidthGBs: 204, peakTflops: { fp32: 5 } }',
    )
    const { CUDA_MPS_PIPE_DIRECTORY: _, ...seen } = await started(name, more)
    expect(seen).toEqual(expected)
  })

  test.each<[MachineName, Environment, string, Environment]>([
    ['eightH100', { CUDA_VISIBLE_DEVICES: '5,2' }, '', { CUDA_VISIBLE_DEVICES: gpuUuid(5) }],
    [
      'mig',
      { CUDA_VISIBLE_DEVICES: sliceUuid(0, 3) },
      'pin: { migProfile: 1g.5gb }',
      { CUDA_VISIBLE_DEVICES: sliceUuid(0, 3) },
    ],
    ['mi250', { ROCR_VISIBLE_DEVICES: '1' }, 'prices: p.yaml', { HIP_VISIBLE_DEVICES: '0' }],
    [
      'twoMi300x',
      { ROCR_VISIBLE_DEVICES: `GPU-${amdUniqueId(1)}` },
      'prices: p.yaml',
      { HIP_VISIBLE_DEVICES: '0' },
    ],
    [
      'twoMi300x',
      { HIP_VISIBLE_DEVICES: `GPU-${amdUniqueId(1)}` },
      'prices: p.yaml',
      { HIP_VISIBLE_DEVICES: '1' },
    ],
    // HIP takes CUDA's variable for its own; vLLM ends where they differ.
    ['twoMi300x', { CUDA_VISIBLE_DEVICES: '1,0' }, 'prices: p.yaml', { HIP_VISIBLE_DEVICES: '1' }],
  ])(
    '%s where %j is set around tune: never a GPU of somebody else',
    async (name, of, more, expected) => {
      writeFileSync(join(box.folder, 'p.yaml'), 'gpus: { MI250-GCD: 1, MI300X: 4 }')
      const { CUDA_MPS_PIPE_DIRECTORY: _, ...seen } = await started(name, more, of)
      expect(seen).toEqual(expected)
    },
  )
})

describe('the built-in server', () => {
  const emulated = async (name: MachineName, args: readonly string[] = []) => {
    const { stdout, code } = await tune.run(
      box,
      ['--model', 'bert', '--slo', '50ms', '--dry-run', ...args],
      environment(name),
    )
    expect(code).toBe(0)
    return stdout.split('\n')
  }

  test.each<[MachineName, string]>([
    ['a10', 'NVIDIA A10'],
    ['unknown', 'NVIDIA Zeta 9000'],
    ['mi300x', 'AMD Instinct MI300X'],
  ])(
    '%s: a card that it does not use is named at the top, with what to install',
    async (name, card) => {
      const [devices, line] = await emulated(name)
      expect(devices).toMatch(/^Devices: /)
      expect(line).toContain(`${card} is not used`)
    },
  )

  test('who asks for emulation is not told', async () => {
    expect((await emulated('a10', ['--devices', 'emulated'])).join('\n')).not.toContain('not used')
  })
})

describe('tune doctor', () => {
  const doctor = async (name: MachineName) => {
    const { code, stdout } = await tune.run(box, ['doctor'], environment(name))
    expect(code).toBe(0)
    return stdout
  }
  test.each<[MachineName, readonly RegExp[]]>([
    [
      'a10',
      [
        /GPU +NVIDIA A10, 23028 MiB, driver 570/,
        /only whole GPUs: an MPS daemon/,
        /NVIDIA A10 is not used, .*npm install/,
      ],
    ],
    ['mig', [/MIG: 3g\.20gb 2g\.10gb 1g\.5gb 1g\.5gb/]],
    ['filled', [/21000 of 23028 MiB are in use by other processes/]],
    ['noDriver', [/couldn't communicate with the NVIDIA driver/]],
    ['mi300x', [/AMD Instinct MI300X, 196592 MiB, driver 6\.10\.5/]],
    ['eightH100', [/(NVIDIA H100 80GB HBM3, 81559 MiB[^\n]*\n[^\n]*){8}/]],
    ['mps', [/MPS control daemon is running/]],
    ['sharedMemory', [/NVIDIA GB10, memory unknown, driver/]],
    [
      'jetson',
      [
        /Orin \(nvgpu\), memory unknown, driver 540\.4\.0/,
        /Orin \(nvgpu\) is not in the catalogue/,
      ],
    ],
    [
      'lostGpu',
      [/Unable to determine the device handle for GPU 0000:0B:00\.0/, /GPU +NVIDIA A10, 23028 MiB/],
    ],
    [
      'h200nvlHalfSetUp',
      [/NVIDIA H200 NVL \(GPU 1\) is in MIG mode without a slice: .*-cgi 1g\.18gb -C.* -i 1 -cci/],
    ],
    ['mi250', [/(MI250 \(MCM\) OAM AC MBA, 65520 MiB[^\n]*\n[^\n]*){2}/]],
    [
      'oldDriver',
      [
        /driver 470\.223\.02/,
        /the CUDA release of onnxruntime-node needs driver 525 or later, but this machine has 470\.223\.02\): update the NVIDIA driver/,
      ],
    ],
  ])('%s', async (name, lines) => {
    const said = await doctor(name)
    for (const line of lines) expect(said).toMatch(line)
  })
})
