/** Programs of a machine that tests do not have. */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A shell script in the folder, under the name of the program that it stands for; its path. */
export function standIn(folder: string, name: string, script: string): string {
  const path = join(folder, name)
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
  return path
}
