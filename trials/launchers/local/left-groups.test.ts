import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { inspectCgroups } from '../../machine/cgroups.ts'
import { createControlGroup, nameGroup } from './control-group.ts'
import { endLeftGroups, findLeftGroups } from './left-groups.ts'

const cgroups = inspectCgroups()

test.skipIf(cgroups.holdParent === undefined)(
  'a group of a tuner that is gone is found without a note, and ended with its processes',
  async () => {
    const gone = spawnSync(process.execPath, ['-e', '']).pid
    const group = await createControlGroup(cgroups, `tune-${gone}-1-5`, { trackProcesses: true })
    const own = await createControlGroup(cgroups, nameGroup(1), { trackProcesses: true })
    const [program, ...args] = group.wrap(['/bin/sh', '-c', 'echo inside; exec sleep 1000'])
    const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(child, 'exit')
    try {
      await once(child.stdout, 'data')
      const mine = () =>
        findLeftGroups(cgroups).filter(({ folders }) =>
          folders.some((folder) => [...group.folders, ...own.folders].includes(folder)),
        )
      expect(mine()).toEqual([{ folders: group.folders, pids: [child.pid] }])
      await endLeftGroups(mine())
      await ended
      expect(group.folders.map(existsSync)).toEqual([false])
      expect(own.folders.map(existsSync)).toEqual([true])
    } finally {
      child.kill('SIGKILL')
      await ended
      await group.end()
      await own.end()
    }
  },
)
