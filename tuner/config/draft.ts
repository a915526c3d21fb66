import type { Origin } from './types.ts'
import type { Layer, Path } from './yaml-file.ts'

/** A layer of settings under construction: each value set with its origin. */
export interface Draft {
  set(path: Path, value: unknown, origin: Origin): void
  layer(): Layer
}

/** @param folder where relative paths in it start from */
export function createDraft(folder: string): Draft {
  const raw: Record<string, unknown> = {}
  const origins = new Map<string, Origin>()
  const findNearestOrigin = (path: Path): Origin | undefined => {
    for (let length = path.length; length > 0; length--) {
      const origin = origins.get(path.slice(0, length).join('\0'))
      if (origin) return origin
    }
    return undefined
  }
  return {
    set(path, value, origin) {
      let owner = raw
      for (const step of path.slice(0, -1)) {
        owner[step] ??= {}
        owner = owner[step] as Record<string, unknown>
      }
      owner[String(path.at(-1))] = value
      origins.set(path.join('\0'), origin)
    },
    layer: () => ({ raw, findOrigin: findNearestOrigin, findKeyOrigin: findNearestOrigin, folder }),
  }
}
