import { type ChildProcess, fork } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** Starts a module beside this one as a child process, from sources (through tsx) as well as from the build. */
export function forkEntry(entry: URL): ChildProcess {
  const fromSources = import.meta.url.endsWith('.ts')
  const path = fileURLToPath(entry)
  return fork(fromSources ? path : path.replace(/\.ts$/, '.js'), [], {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execArgv: fromSources ? ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href] : [],
  })
}
