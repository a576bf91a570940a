//! What kube-controller-manager, scheduler and kubelet do.
