/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of vfs and of the file systems that are timed.  No include guard: the includer
 * defines FUNCTION(name of the programs, function, module, layer, operation, index among functions
 * of the same layer and operation).  All of them can be probed in 5.10 to 7.2.
 */

/* readv() and writev() call functions of their own; so do overlayfs, io_uring and nfsd. */
FUNCTION(v_read, vfs_read, NULL, LAYER_VFS, CALL_READ, 0)
FUNCTION(v_readv, vfs_readv, NULL, LAYER_VFS, CALL_READ, 1)
FUNCTION(v_iter_r, vfs_iter_read, NULL, LAYER_VFS, CALL_READ, 2)
FUNCTION(v_iocb_r, vfs_iocb_iter_read, NULL, LAYER_VFS, CALL_READ, 3)
FUNCTION(v_write, vfs_write, NULL, LAYER_VFS, CALL_WRITE, 0)
FUNCTION(v_writev, vfs_writev, NULL, LAYER_VFS, CALL_WRITE, 1)
FUNCTION(v_iter_w, vfs_iter_write, NULL, LAYER_VFS, CALL_WRITE, 2)
FUNCTION(v_iocb_w, vfs_iocb_iter_write, NULL, LAYER_VFS, CALL_WRITE, 3)
FUNCTION(v_open, vfs_open, NULL, LAYER_VFS, CALL_OPEN, 0)
FUNCTION(v_fsync, vfs_fsync, NULL, LAYER_VFS, CALL_FSYNC, 0)
FUNCTION(v_fsyncr, vfs_fsync_range, NULL, LAYER_VFS, CALL_FSYNC, 1)

FUNCTION(ext4_r, ext4_file_read_iter, "ext4", LAYER_EXT4, CALL_READ, 0)
FUNCTION(ext4_w, ext4_file_write_iter, "ext4", LAYER_EXT4, CALL_WRITE, 0)
FUNCTION(ext4_o, ext4_file_open, "ext4", LAYER_EXT4, CALL_OPEN, 0)
FUNCTION(ext4_s, ext4_sync_file, "ext4", LAYER_EXT4, CALL_FSYNC, 0)

FUNCTION(xfs_r, xfs_file_read_iter, "xfs", LAYER_XFS, CALL_READ, 0)
FUNCTION(xfs_w, xfs_file_write_iter, "xfs", LAYER_XFS, CALL_WRITE, 0)
FUNCTION(xfs_o, xfs_file_open, "xfs", LAYER_XFS, CALL_OPEN, 0)
FUNCTION(xfs_s, xfs_file_fsync, "xfs", LAYER_XFS, CALL_FSYNC, 0)

FUNCTION(btrfs_r, btrfs_file_read_iter, "btrfs", LAYER_BTRFS, CALL_READ, 0)
FUNCTION(btrfs_w, btrfs_file_write_iter, "btrfs", LAYER_BTRFS, CALL_WRITE, 0)
FUNCTION(btrfs_o, btrfs_file_open, "btrfs", LAYER_BTRFS, CALL_OPEN, 0)
FUNCTION(btrfs_s, btrfs_sync_file, "btrfs", LAYER_BTRFS, CALL_FSYNC, 0)

FUNCTION(nfs_r, nfs_file_read, "nfs", LAYER_NFS, CALL_READ, 0)
FUNCTION(nfs_w, nfs_file_write, "nfs", LAYER_NFS, CALL_WRITE, 0)
FUNCTION(nfs_o, nfs_file_open, "nfs", LAYER_NFS, CALL_OPEN, 0)
FUNCTION(nfs4_o, nfs4_file_open, "nfsv4", LAYER_NFS, CALL_OPEN, 1)
FUNCTION(nfs_s, nfs_file_fsync, "nfs", LAYER_NFS, CALL_FSYNC, 0)

FUNCTION(fuse_r, fuse_file_read_iter, "fuse", LAYER_FUSE, CALL_READ, 0)
FUNCTION(fuse_w, fuse_file_write_iter, "fuse", LAYER_FUSE, CALL_WRITE, 0)
FUNCTION(fuse_o, fuse_open, "fuse", LAYER_FUSE, CALL_OPEN, 0)
FUNCTION(fuse_s, fuse_fsync, "fuse", LAYER_FUSE, CALL_FSYNC, 0)

FUNCTION(p9_r, v9fs_file_read_iter, "9p", LAYER_9P, CALL_READ, 0)
FUNCTION(p9_w, v9fs_file_write_iter, "9p", LAYER_9P, CALL_WRITE, 0)
/* with cache=mmap until 6.3; with cache=loose these read by generic_file_read_iter() */
FUNCTION(p9_rm, v9fs_mmap_file_read_iter, "9p", LAYER_9P, CALL_READ, 1)
FUNCTION(p9_wm, v9fs_mmap_file_write_iter, "9p", LAYER_9P, CALL_WRITE, 1)
FUNCTION(p9_o, v9fs_file_open, "9p", LAYER_9P, CALL_OPEN, 0)
FUNCTION(p9_s, v9fs_file_fsync_dotl, "9p", LAYER_9P, CALL_FSYNC, 0)
FUNCTION(p9_so, v9fs_file_fsync, "9p", LAYER_9P, CALL_FSYNC, 1)

#undef FUNCTION
