/**
 * Starts modules as a child process or a worker thread, from sources (.ts, through tsx) or from the
 * build (.js).
 */
import { type ChildProcess, fork } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

const isSource = (from: string) => from.endsWith('.ts')
const resolveSibling = (name: string, from: string) =>
  new URL(`${name}${isSource(from) ? '.ts' : '.js'}`, from)
const resolveTsx = (from: string, file: string) =>
  new URL(file, pathToFileURL(createRequire(from).resolve('tsx/package.json'))).href

/**
 * Resolves a module beside the caller to arguments for `child_process.fork`.
 * @param name relative to the caller, without extension: './engine-worker'
 * @param from the caller's import.meta.url
 */
export function resolveProcessEntry(
  name: string,
  from: string,
): { readonly path: string; readonly execArgv: string[] } {
  return {
    path: fileURLToPath(resolveSibling(name, from)),
    execArgv: isSource(from) ? ['--import', resolveTsx(from, 'dist/loader.mjs')] : [],
  }
}

/**
 * Starts a module beside the caller as a child process. Messages use its channel (structured
 * clone), and errors its stderr.
 */
export function forkEntry(name: string, from: string): ChildProcess {
  const { path, execArgv } = resolveProcessEntry(name, from)
  return fork(path, [], {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execArgv,
  })
}

/**
 * Resolves a module beside the caller to the URL of a worker thread. Node 20 runs no --import hooks
 * in workers, so the hook of tsx is registered in the worker itself.
 */
export function resolveThreadEntry(name: string, from: string): URL {
  const url = resolveSibling(name, from)
  if (!isSource(from)) return url
  const code = `import { register } from '${resolveTsx(from, 'dist/esm/api/index.mjs')}'; register(); await import('${url.href}')`
  return new URL(`data:text/javascript,${encodeURIComponent(code)}`)
}
