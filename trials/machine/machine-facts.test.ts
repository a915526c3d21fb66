import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { formatCoreList, parseCoreList } from '../../profiler/load/cpu-affinity.ts'
import { inspectCgroups } from './cgroups.ts'
import { findCardsWithoutTool, inspectMachine } from './machine-facts.ts'

test('core lists, both ways', () => {
  for (const [list, cores] of [
    ['0', [0]],
    ['0-3', [0, 1, 2, 3]],
    ['0-2,5,8-9', [0, 1, 2, 5, 8, 9]],
    ['', []],
  ] as const) {
    expect(parseCoreList(list)).toEqual(cores)
    expect(formatCoreList(cores)).toBe(list)
  }
})

test('this machine', async () => {
  const machine = await inspectMachine()
  expect(machine.cores).toBeGreaterThan(0)
  expect(machine.affinity.length).toBeGreaterThan(0)
  expect(machine.affinity.length).toBeLessThanOrEqual(machine.cores)
  expect(machine.memoryMiB).toBeGreaterThan(100)
  expect(machine.availableMemoryMiB).toBeLessThanOrEqual(machine.memoryMiB)
  expect(machine.packages.map((one) => one.name)).toEqual([
    '@tensorflow/tfjs-node-gpu',
    'onnxruntime-node',
    'node-llama-cpp',
  ])
})

describe('cards on the bus that no tool tells of', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'tune-pci-'))
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))
  const device = (name: string, vendor: string, kind: string) => {
    mkdirSync(join(root, name))
    writeFileSync(join(root, name, 'vendor'), `${vendor}\n`)
    writeFileSync(join(root, name, 'class'), `${kind}\n`)
  }
  test('say what to install', () => {
    device('0000:00:02.0', '0x8086', '0x030000')
    device('0000:03:00.0', '0x1002', '0x030000')
    expect(findCardsWithoutTool(root)).toBeUndefined()
    device('0000:01:00.0', '0x10de', '0x030200')
    device('0000:02:00.0', '0x10de', '0x030000')
    expect(findCardsWithoutTool(root)).toBe(
      'an NVIDIA card is installed, but nvidia-smi does not report it: install the NVIDIA driver',
    )
    device('0000:04:00.0', '0x1002', '0x120000')
    expect(findCardsWithoutTool(root)).toContain(
      '; an AMD card is installed, but rocm-smi does not report it: install ROCm',
    )
    expect(findCardsWithoutTool(join(root, 'absent'))).toBeUndefined()
  })
})

describe('control groups', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'tune-cgroups-'))
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))
  const file = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }

  test('none', () => expect(inspectCgroups(root, '')).toEqual({ version: 0 }))

  test('version 2, delegated above our own group, which holds processes', () => {
    file('cgroup.controllers', 'cpuset cpu io memory pids')
    file('cgroup.subtree_control', 'cpu memory')
    file('cgroup.procs', '')
    file('user.slice/session.scope/cgroup.subtree_control', '')
    file('user.slice/session.scope/cpu.max', '150000 100000')
    file('user.slice/session.scope/memory.max', String(512 * 2 ** 20))
    expect(inspectCgroups(root, '0::/user.slice/session.scope\n')).toEqual({
      version: 2,
      cpuParent: root,
      memoryParent: root,
      cpuQuotaCores: 1.5,
      memoryLimitMiB: 512,
    })
  })

  test('version 2 that hands us nothing', () => {
    file('cgroup.controllers', 'cpu memory')
    file('cgroup.subtree_control', '')
    file('cpu.max', 'max 100000')
    file('memory.max', 'max')
    expect(inspectCgroups(root, '0::/\n')).toEqual({
      version: 2,
      cpuParent: undefined,
      memoryParent: undefined,
      cpuQuotaCores: undefined,
      memoryLimitMiB: undefined,
    })
  })

  test('version 1, controllers mounted together, in a container whose path is the host’s', () => {
    file('cpu,cpuacct/cpu.cfs_quota_us', '200000')
    file('cpu,cpuacct/cpu.cfs_period_us', '100000')
    file('memory/memory.limit_in_bytes', '9223372036854771712')
    expect(inspectCgroups(root, '5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n')).toEqual({
      version: 1,
      cpuParent: join(root, 'cpu,cpuacct'),
      memoryParent: join(root, 'memory'),
      cpuQuotaCores: 2,
      memoryLimitMiB: undefined,
    })
  })

  test.skipIf(process.getuid?.() === 0)(
    'a folder we may not write is none (root may write all, so it is not asked)',
    () => {
      file('cpu/cpu.cfs_quota_us', '-1')
      chmodSync(join(root, 'cpu'), 0o555)
      expect(inspectCgroups(root, '1:cpu:/\n').cpuParent).toBeUndefined()
    },
  )
})
