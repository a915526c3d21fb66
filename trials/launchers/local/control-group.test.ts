import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type CgroupFacts, inspectCgroups } from '../../machine/cgroups.ts'
import { createControlGroup } from './control-group.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tune-cgroup-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

/** A folder in the place of the kernel's: what is written can be read, and nothing is limited. */
const paper = (version: 1 | 2): CgroupFacts => {
  for (const name of ['cpu', 'memory']) mkdirSync(join(root, name))
  return { version, cpuParent: join(root, 'cpu'), memoryParent: join(root, 'memory') }
}
const read = (...path: string[]) => readFileSync(join(root, ...path), 'utf8')

test('version 2: quota and memory in its files', async () => {
  const group = await createControlGroup(paper(2), 't', { cpuCores: 0.5, memoryMiB: 64 })
  expect(read('cpu', 't', 'cpu.max')).toBe('50000 100000')
  expect(read('memory', 't', 'memory.max')).toBe(String(64 * 2 ** 20))
  expect(group.limitsText).toBe('CPU time of 0.5 cores, 64 MiB memory by cgroup v2')
})

test('version 1: quota and memory in its files', async () => {
  await createControlGroup(paper(1), 't', { cpuCores: 1.5, memoryMiB: 64 })
  expect(read('cpu', 't', 'cpu.cfs_quota_us')).toBe('150000')
  expect(read('memory', 't', 'memory.limit_in_bytes')).toBe(String(64 * 2 ** 20))
})

test('no limit, no group, and the command as it was', async () => {
  const group = await createControlGroup(paper(2), 't', {})
  expect(group.wrap(['serve'])).toEqual(['serve'])
  expect(group).toMatchObject({ folders: [], limitsText: undefined })
  expect(readdirSync(join(root, 'cpu'))).toEqual([])
})

test('a limit that this machine cannot set is refused, and nothing is left', async () => {
  const cpuOnly = { ...paper(2), memoryParent: undefined }
  await expect(createControlGroup(cpuOnly, 't', { memoryMiB: 64 })).rejects.toThrow(
    /memory \(memoryMiB 64\) cannot be limited/,
  )
  await expect(createControlGroup({ version: 0 }, 't', { cpuCores: 0.5 })).rejects.toMatchObject({
    hint: expect.stringContaining('root'),
  })
})

const { version, cpuParent } = inspectCgroups()
describe.skipIf(cpuParent === undefined)(
  `with the kernel's own cgroup v${version} (skipped where no group may be made)`,
  () => {
    test('half a core is half a core, and the group goes when its process has', async () => {
      const group = await createControlGroup({ version, cpuParent }, `tune-test-${process.pid}`, {
        cpuCores: 0.5,
      })
      try {
        const burn =
          'const t = process.hrtime.bigint(); while (process.hrtime.bigint() - t < 1_000_000_000n); const c = process.cpuUsage(); console.log((c.user + c.system) / 1e6)'
        const [program, ...args] = group.wrap([process.execPath, '-e', burn])
        const cpuSeconds = Number(execFileSync(program!, args, { encoding: 'utf8' }))
        expect(cpuSeconds).toBeLessThan(0.75)
      } finally {
        await group.end()
      }
      for (const folder of group.folders) expect(existsSync(folder)).toBe(false)
    })
  },
)
