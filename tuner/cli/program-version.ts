/** The version of the program, and the commit that it was built from. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** '0.1.0 (454483a)'; without the commit if neither the build nor a repository has it. */
export function readProgramVersion(): string {
  const root = new URL(import.meta.url.endsWith('.ts') ? '../../' : '../../../', import.meta.url)
  const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
    version: string
  }
  const commit = readBuildCommit(root) ?? readCheckoutCommit(root)
  return commit === undefined ? version : `${version} (${commit})`
}

/** Written by `npm run build`. */
function readBuildCommit(root: URL): string | undefined {
  const file = new URL('dist/commit', root)
  return existsSync(file) ? readFileSync(file, 'utf8').trim() || undefined : undefined
}

function readCheckoutCommit(root: URL): string | undefined {
  if (!existsSync(new URL('.git', root))) return undefined
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
      cwd: fileURLToPath(root),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return undefined // No git, or a repository without a commit.
  }
}
