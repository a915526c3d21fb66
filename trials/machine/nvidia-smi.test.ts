import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listNvidiaGpus, parseGpus, parseProcessMemoryMiB, readNvidiaUse } from './nvidia-smi.ts'
import { standIn } from './testing/stand-in.ts'

// In the formats of nvidia-smi 470 to 550. The A100's `-L` is that of DataDog/datadog-agent#33120
// with other profiles beside.
const t4 =
  '0, GPU-3b6a6e9e-2a3f-5a9a-8bd0-0f1c6b1c7a11, Tesla T4, 15360, 2, 470.223.02, Default, [N/A]\n'
const t4List = 'GPU 0: Tesla T4 (UUID: GPU-3b6a6e9e-2a3f-5a9a-8bd0-0f1c6b1c7a11)\n'
const a100 = `0, GPU-7fdaf0a5-179b-f636-d15d-daf243e3ff16, NVIDIA A100-SXM4-80GB, 81920, 88, 535.216.01, Default, Enabled, 8.0
1, GPU-d8594bd4-0fc3-8595-e355-7c98138f3b95, NVIDIA A100-SXM4-80GB, 81920, 0, 535.216.01, Exclusive_Process, Disabled, 8.0
`
const a100List = `GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-7fdaf0a5-179b-f636-d15d-daf243e3ff16)
  MIG 3g.40gb     Device  0: (UUID: MIG-feb88891-0321-5fef-9c87-d4af3b54259e)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-a25704ba-3a06-5299-a795-fd7cf4d13973)
  MIG 1c.2g.20gb  Device  2: (UUID: MIG-50f1c4c9-1508-5e8d-bb06-d08145b22e01)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-d8594bd4-0fc3-8595-e355-7c98138f3b95)
`
const h200 =
  '0, GPU-0a1b2c3d-1111-2222-3333-444455556666, NVIDIA H200, 143771, 0, 550.127.08, Default, Disabled, 9.0\n'
const h200List = 'GPU 0: NVIDIA H200 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n'

describe('GPUs', () => {
  test('a T4 under a driver that knows neither MIG on it nor compute capability', () => {
    expect(parseGpus(t4, t4List).gpus).toEqual([
      {
        vendor: 'nvidia',
        index: 0,
        uuid: 'GPU-3b6a6e9e-2a3f-5a9a-8bd0-0f1c6b1c7a11',
        name: 'Tesla T4',
        memoryMiB: 15360,
        usedMemoryMiB: 2,
        driver: '470.223.02',
        computeMode: 'Default',
        computeCapability: undefined,
        migEnabled: false,
        migDevices: [],
      },
    ])
  })
  test('an A100 in slices beside one that is whole', () => {
    const [sliced, whole] = parseGpus(a100, a100List).gpus
    expect(sliced).toMatchObject({ migEnabled: true, computeCapability: '8.0' })
    expect(sliced!.migDevices.map(({ profile, memoryMiB }) => [profile, memoryMiB])).toEqual([
      ['3g.40gb', 40960],
      ['1g.10gb+me', 10240],
      ['1c.2g.20gb', 20480],
    ])
    expect(sliced!.migDevices[1]!.uuid).toBe('MIG-a25704ba-3a06-5299-a795-fd7cf4d13973')
    expect(whole).toMatchObject({
      migEnabled: false,
      migDevices: [],
      computeMode: 'Exclusive_Process',
    })
  })
  test('an H200', () => {
    expect(parseGpus(h200, h200List).gpus).toMatchObject([
      { name: 'NVIDIA H200', memoryMiB: 143771, migEnabled: false, computeCapability: '9.0' },
    ])
  })
  test('one whose memory is the machine’s tells none', () => {
    const [gpu] = parseGpus(
      '0, GPU-1, NVIDIA GB10, [N/A], [Not Supported], 580.95.05, Default, [N/A], 12.1\n',
      '',
    ).gpus
    expect(gpu).toMatchObject({
      name: 'NVIDIA GB10',
      memoryMiB: undefined,
      usedMemoryMiB: 0,
      migEnabled: false,
    })
  })
  test('a Jetson, whose UUID has no prefix and which tells next to nothing (JetPack 6)', () => {
    const uuid = '54d0709b-558d-5a59-9c65-0c5fc14a21a4'
    const row = `0, ${uuid}, Orin (nvgpu), [N/A], [N/A], 540.4.0, [N/A], [N/A], 8.7, [N/A]\n`
    const { gpus, problem } = parseGpus(row, `GPU 0: Orin (nvgpu) (UUID: ${uuid})\n`)
    expect(gpus).toMatchObject([
      {
        uuid,
        name: 'Orin (nvgpu)',
        computeMode: 'Default',
        usedMemoryMiB: 0,
        eccErrors: undefined,
      },
    ])
    expect(problem).toBeUndefined()
    expect(parseGpus(row.replace(uuid, '[N/A]'), '').gpus).toMatchObject([{ uuid: '0' }])
  })
  test('uncorrected memory errors, of one that counts them', () => {
    const row = h200.replace('9.0\n', '9.0, 3\n')
    expect(parseGpus(row, h200List).gpus).toMatchObject([{ eccErrors: 3 }])
  })
  test('one that no longer answers is none, and said to be there', () => {
    const row =
      '1, GPU-9, NVIDIA L4, [GPU is lost], [GPU is lost], 550.127.08, [GPU is lost], [N/A], 8.9\n'
    expect(parseGpus(h200 + row, h200List)).toMatchObject({
      gpus: [{ name: 'NVIDIA H200' }],
      problem: 'GPU 1 (NVIDIA L4): [GPU is lost]',
    })
  })
  test('what nvidia-smi says beside its rows is no row', () => {
    const words =
      'This may be because not all required external power cables are\nattached, or the attached cables are not seated properly.\n'
    expect(parseGpus(words + h200, h200List).gpus).toHaveLength(1)
  })
  test('none', () =>
    expect(parseGpus('No devices were found\n', 'No devices found.\n')).toEqual({ gpus: [] }))
})

test('memory of a group of processes, and nothing when others’ alone are listed', () => {
  const apps = '4711, 2048\n4712, 512\n9000, 10000\n4713, [N/A]\n'
  expect(parseProcessMemoryMiB(apps, [4711, 4712, 4713])).toBe(2560)
  expect(parseProcessMemoryMiB(apps, [1])).toBeUndefined()
  expect(parseProcessMemoryMiB('', [1])).toBeUndefined()
})

describe('asking', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tune-smi-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  /** A program in nvidia-smi's place that answers as a script says. */
  test('no nvidia-smi: no GPUs', async () =>
    expect(await listNvidiaGpus(join(folder, 'absent'))).toEqual({ gpus: [] }))

  test('an older driver is asked again without what it does not know', async () => {
    const program = standIn(
      folder,
      'old',
      `case "$1" in
        -L) printf '${t4List.trim()}\\n';;
        *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;;
        *) printf '${t4.trim()}\\n';;
      esac`,
    )
    expect((await listNvidiaGpus(program)).gpus).toMatchObject([
      { name: 'Tesla T4', memoryMiB: 15360 },
    ])
  })

  // As gpustat#125 and others tell of it: `-L` goes on, a query of all GPUs may not.
  const lost = 'Unable to determine the device handle for gpu 0000:0B:00.0: Unknown Error'
  test.each([
    [
      'whose query fails for all',
      `case "$*" in *' -i 0') printf '${h200.trim()}\\n';; *) echo '${lost}'; exit 255;; esac`,
    ],
    [
      'whose query tells of the others and fails',
      `echo '${lost}'; printf '${h200.trim()}\\n'; exit 15`,
    ],
    ['whose query tells of the others', `echo '${lost}'; printf '${h200.trim()}\\n'`],
  ])('a GPU that fell off the bus beside one that is there, of a driver %s', async (_, query) => {
    const program = standIn(
      folder,
      'lost',
      `case "$1" in -L) printf '${h200List.trim()}\\n'; echo '${lost}'; exit 15;; *) ${query};; esac`,
    )
    expect(await listNvidiaGpus(program)).toMatchObject({
      gpus: [{ name: 'NVIDIA H200' }],
      problem: 'Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error',
    })
  })

  test('one that fell off the bus alone is a failure in the driver’s words', async () => {
    await expect(
      listNvidiaGpus(standIn(folder, 'alone', `echo '${lost}'; exit 255`)),
    ).rejects.toThrow(`nvidia-smi failed: ${lost}`)
  })

  test('a driver that fails is a failure in its own words, not a machine without GPUs', async () => {
    const program = standIn(
      folder,
      'broken',
      `echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18`,
    )
    await expect(listNvidiaGpus(program)).rejects.toThrow(
      'nvidia-smi failed: Failed to initialize NVML: Driver/library version mismatch',
    )
  })

  test('use of a GPU by some processes', async () => {
    const program = standIn(
      folder,
      'use',
      `case "$1" in *apps*) echo '7, 300';; *power.draw*) echo '37, 61.50';; esac`,
    )
    const silent = standIn(
      folder,
      'silent',
      `case "$1" in *apps*) echo '7, 300';; *) echo '[N/A], [Not Supported]';; esac`,
    )
    expect(await readNvidiaUse('GPU-1', [7], program)).toEqual({
      memoryMiB: 300,
      utilization: 0.37,
      gpuWatts: 61.5,
    })
    expect(await readNvidiaUse('GPU-1', [7], silent)).toEqual({
      memoryMiB: 300,
      utilization: undefined,
      gpuWatts: undefined,
    })
    expect(await readNvidiaUse('MIG-1', [7], program)).toEqual({
      memoryMiB: 300,
      utilization: undefined,
      gpuWatts: undefined,
    })
  })
})
