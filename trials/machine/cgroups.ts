/** Control groups of this machine: their version, our limits, and where we may create groups. */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export interface CgroupFacts {
  /**
   * 2 = unified, 1 = one hierarchy a controller, 0 = none. Mixed machines are counted where the cpu
   * controller is.
   */
  readonly version: 0 | 1 | 2
  /** Folder in which we may make groups that limit CPU time; undefined: none. */
  readonly cpuParent?: string
  /** Folder in which we may make groups that limit memory. */
  readonly memoryParent?: string
  /**
   * Folder in which we may create groups without limits, which contain all processes started in
   * them.
   */
  readonly holdParent?: string
  /** Cores' worth of CPU time that this process and all it starts may use; undefined: no limit. */
  readonly cpuQuotaCores?: number
  readonly memoryLimitMiB?: number
}

/**
 * @param root where control groups are mounted, '/sys/fs/cgroup'
 * @param own contents of /proc/self/cgroup
 */
export const inspectCgroups = (
  root = '/sys/fs/cgroup',
  own = readIfThere('/proc/self/cgroup') ?? '',
): CgroupFacts => {
  const lines = own.split('\n').filter((line) => line !== '')
  const paths = new Map(
    lines
      .map((line) => line.split(':'))
      .map(([, controllers = '', path = '/']) => [controllers, path.replace(/\/$/, '')]),
  )
  if (existsSync(join(root, 'cgroup.controllers'))) return inspectUnified(root, paths.get('') ?? '')
  if (existsSync(join(root, 'cpu')) || existsSync(join(root, 'cpu,cpuacct')))
    return inspectLegacy(root, paths)
  return { version: 0 }
}

const inspectUnified = (root: string, own: string): CgroupFacts => {
  const folder = existsSync(join(root, own)) ? join(root, own) : root
  const [quota, period] = readIfThere(join(folder, 'cpu.max'))?.trim().split(' ') ?? []
  return {
    version: 2,
    cpuParent: findParent('cpu', root, folder),
    memoryParent: findParent('memory', root, folder),
    holdParent: findWritable(folder),
    cpuQuotaCores:
      quota === undefined || quota === 'max' ? undefined : Number(quota) / Number(period),
    memoryLimitMiB: limitMiB(readIfThere(join(folder, 'memory.max'))),
  }
}

/**
 * Finds the nearest folder, upwards from our own group, whose children have the controller and
 * where we may create groups. Our own group is rarely usable: a group with processes cannot
 * delegate controllers to children ("no internal processes",
 * Documentation/admin-guide/cgroup-v2.rst).
 */
const findParent = (controller: string, root: string, from: string): string | undefined => {
  for (let folder = from; ; folder = dirname(folder)) {
    const hands = readIfThere(join(folder, 'cgroup.subtree_control'))
      ?.split(/\s+/)
      .includes(controller)
    if (hands && isWritable(folder) && isWritable(join(folder, 'cgroup.procs'))) return folder
    if (folder === root || folder === dirname(folder)) return undefined
  }
}

const inspectLegacy = (root: string, paths: ReadonlyMap<string, string>): CgroupFacts => {
  const findFolder = (controller: string): string | undefined => {
    const names = [...paths.keys()].find((list) => list.split(',').includes(controller))
    if (names === undefined) return undefined
    const hierarchy = [names, controller].map((name) => join(root, name)).find(existsSync)
    if (hierarchy === undefined) return undefined
    const own = join(hierarchy, paths.get(names) ?? '')
    // In a container the path is often the host's, and the mount already our own group.
    return existsSync(own) ? own : hierarchy
  }
  const cpu = findFolder('cpu')
  const memory = findFolder('memory')
  const quota = Number(cpu && readIfThere(join(cpu, 'cpu.cfs_quota_us')))
  return {
    version: 1,
    cpuParent: cpu !== undefined && isWritable(cpu) ? cpu : undefined,
    memoryParent: memory !== undefined && isWritable(memory) ? memory : undefined,
    holdParent: [join(root, 'unified', paths.get('') ?? ''), join(root, 'unified'), cpu, memory]
      .map(findWritable)
      .find((folder) => folder !== undefined),
    cpuQuotaCores:
      quota > 0 ? quota / Number(readIfThere(join(cpu!, 'cpu.cfs_period_us'))) : undefined,
    memoryLimitMiB: limitMiB(memory && readIfThere(join(memory, 'memory.limit_in_bytes'))),
  }
}

const findWritable = (folder: string | undefined): string | undefined =>
  folder !== undefined && isWritable(folder) && isWritable(join(folder, 'cgroup.procs'))
    ? folder
    : undefined

/** 'max' and the 2^63 of version 1 mean no limit. */
const limitMiB = (text: string | undefined): number | undefined => {
  const bytes = Number(text)
  return Number.isNaN(bytes) || bytes >= 2 ** 62 ? undefined : bytes / 2 ** 20
}

const isWritable = (path: string): boolean => {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    // A read-only mount, another user's, or removed: not writable.
    return false
  }
}

const readIfThere = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // A missing file is an expected answer.
    return undefined
  }
}
