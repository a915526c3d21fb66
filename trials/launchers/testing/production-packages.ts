/** What the product runs with, of the packages that this checkout has installed. */
import { execFileSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

/** Folders of the packages that are no development packages, relative to `root`, those that hold others first. */
export const productionPackages = (root: string): string[] => {
  // npm reports extraneous packages by its exit code; what it lists is right all the same.
  const npm = ['ls', '--omit=dev', '--all', '--parseable']
  // Where the packages lie, the folder may be another's (a worktree's link).
  const packagesIn = dirname(realpathSync(join(root, 'node_modules')))
  const listed = (() => {
    try {
      return execFileSync('npm', npm, { cwd: packagesIn, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    } catch (error) {
      return (error as { stdout: string }).stdout
    }
  })()
  const paths = listed
    .trim()
    .split('\n')
    .slice(1)
    .map((path) => relative(packagesIn, path))
  // A package goes with what is nested in it.
  return paths.sort((a, b) => a.length - b.length)
}
